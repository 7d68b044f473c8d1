"""ONNX Runtime: sessions, and models prepared for one machine."""
