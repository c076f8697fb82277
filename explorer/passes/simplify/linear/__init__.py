"""Rules around convolutions and matmuls with constant weights, one idea per file."""
