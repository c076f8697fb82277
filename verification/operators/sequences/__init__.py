"""Sequences of calls of what remembers: each call begins with what the one before left."""
