"""Routes of llama.cpp's server beside OpenAI's: texts as tokens, prompts of conversations, properties."""
