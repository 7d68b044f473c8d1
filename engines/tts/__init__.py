"""Speech: ONNX voices and their phonemes."""
