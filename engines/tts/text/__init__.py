"""Text before speech: normal forms, numbers, sentences, pieces."""
