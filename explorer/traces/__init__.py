"""What needs a trace only: tables, comparison, coverage, the file."""
