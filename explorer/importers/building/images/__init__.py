"""Images between their pixels: interpolation and sampling, for all formats."""
