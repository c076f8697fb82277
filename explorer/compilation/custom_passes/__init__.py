"""Passes, rules and texts of a person's own in a pipeline."""
