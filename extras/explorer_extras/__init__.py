"""Operators that few models have; `explorer` finds them by entry points (pyproject.toml)."""
