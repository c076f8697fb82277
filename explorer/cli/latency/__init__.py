"""Latency: ours and other runtimes, measured in turns on the same inputs."""

OURS = "ours"
ONNXRUNTIME = "onnxruntime"
OPENVINO = "openvino"
ONNXRUNTIME_EXACT = "exact"
"""onnxruntime with products of bytes that are right without VNNI, too."""
PEERS = (ONNXRUNTIME, OPENVINO)
