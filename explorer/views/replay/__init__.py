"""Rewrites one by one: the program after each, what changed in it, and who made what."""
