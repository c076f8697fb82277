"""Sizes that are not known yet: exact arithmetic, constraints, ranges."""
