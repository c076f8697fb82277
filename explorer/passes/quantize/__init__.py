"""Integer arithmetic where a model says how its numbers are quantized."""
