"""The step that makes a convolution a Winograd convolution."""
