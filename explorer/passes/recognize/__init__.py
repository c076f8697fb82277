"""What a model spells out becomes the operation that it is."""
