"""What a person sees of a model in the first second: whether the graph can be read at once."""
