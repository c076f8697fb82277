"""onnx's own test cases on every device, in child processes, and the report of them."""
