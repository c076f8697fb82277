"""Rules over operations that move elements without computing anything, one idea per file."""
