"""Towards kernels: what has no kernel is rewritten, placed, laid out, lowered."""
