"""Operators on images: resizing, sampling, regions."""
