"""Latency: ours and other runtimes, measured in turns on the same inputs."""

OURS = "ours"
ONNXRUNTIME = "onnxruntime"
OPENVINO = "openvino"
PEERS = (ONNXRUNTIME, OPENVINO)
