"""Random valid models on every device and in onnxruntime: do the numbers agree?"""
