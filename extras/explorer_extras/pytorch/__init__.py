"""Calls of PyTorch: special functions, linear algebra, Fourier transforms, complex numbers."""
