"""Chat, pictures, embeddings and reranking on llama.cpp."""
