"""What converters work with: nodes, values, what is built."""
