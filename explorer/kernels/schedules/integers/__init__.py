"""Schedules of products of narrow integers."""
