"""Traces as data for the page: a small head, and chunks by key."""
