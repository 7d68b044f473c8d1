"""Transcription: ONNX and MLX models, voice activity, segments."""
