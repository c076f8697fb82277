"""Samples of PyTorch's own operator tests, exported and judged by eager."""
