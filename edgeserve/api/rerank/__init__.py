"""Relevance of documents, in the shapes of Jina, Cohere, vLLM, llama-server and TEI."""
