"""Latency: ours and other runtimes, measured in turns on the same inputs."""

OURS = "ours"
REFERENCE = "reference"
"""Who is right about the model's format; by its name, too."""
ONNXRUNTIME = "onnxruntime"
OPENCV = "opencv"
OPENVINO = "openvino"
EXACT = "exact"
"""The reference with products of bytes that are right without VNNI, too."""
PEERS = (REFERENCE, ONNXRUNTIME, OPENCV, OPENVINO)
