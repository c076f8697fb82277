"""Rules that simplify elementwise arithmetic, one idea per file."""
