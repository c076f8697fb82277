"""Passes about values that live from call to call."""
