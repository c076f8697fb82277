"""Operators of onnxruntime's own and of QONNX."""
