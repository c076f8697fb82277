"""A module as people look at it: text, graph, numbers."""
