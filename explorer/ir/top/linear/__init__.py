"""Convolution and matrix multiplication, with what is fused into them."""
