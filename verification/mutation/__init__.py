"""Damaged files of every kind that the commands read: made, read and counted (`explorer fuzz`)."""
