"""What decides how a model is compiled: options, knobs, sizes, forks."""
