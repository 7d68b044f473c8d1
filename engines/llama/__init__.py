"""Chat, pictures and embeddings on llama.cpp."""
