"""Reads prototxt and caffemodel files."""
