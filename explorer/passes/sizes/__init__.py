"""Symbolic dimensions get sizes, or stay open within a range."""
