"""Graphs as drawings: blocks, layers, coordinates."""
