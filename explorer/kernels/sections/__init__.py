"""Parallel sections of a kernel, and which of their tasks work on the same rows."""
