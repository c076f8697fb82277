"""Rules about quantized numbers: products of integers, movement, pairs, and fusion into kernels."""
