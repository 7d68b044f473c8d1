"""Encoders such as BERT on ONNX Runtime: vectors of texts, and the relevance of documents."""
