"""Dialects beside `top`: the source model, launches of kernels, loops."""
