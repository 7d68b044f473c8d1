"""Whisper: features, decoding, words, languages."""
