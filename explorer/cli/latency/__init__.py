"""Latency: ours and other runtimes, measured in turns on the same inputs."""

OURS = "ours"
REFERENCE = "reference"
"""Who is right about the model's format; for ONNX by its name, too."""
ONNXRUNTIME = "onnxruntime"
OPENVINO = "openvino"
TORCH = "torch"
TORCH_COMPILE = "torch.compile"
"""PyTorch as it is, and what its own compiler makes of the graph (inductor)."""
EXACT = "exact"
"""The reference with products of bytes that are right without VNNI, too."""
PEERS = (REFERENCE, ONNXRUNTIME, OPENVINO, TORCH, TORCH_COMPILE)
