"""Latency: ours and other runtimes, measured in turns on the same inputs."""

OURS = "ours"
REFERENCE = "reference"
"""Who is right about the model's format; by its name, too."""
ONNXRUNTIME = "onnxruntime"
OPENCV = "opencv"
OPENVINO = "openvino"
LITERT = "LiteRT"
"""With XNNPACK, as its users run TFLite models."""
EXACT = "exact"
"""The reference with products of bytes that are right without VNNI, too."""
PEERS = (REFERENCE, ONNXRUNTIME, LITERT.lower(), OPENCV, OPENVINO)
"""As the command line has them; a reference by its name runs models of its own format only."""
