"""Rules that find an operation in the pieces that a model spells it out in, one idea per file."""
