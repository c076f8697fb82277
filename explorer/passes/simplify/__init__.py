"""Fewer and simpler operations that compute the same."""
