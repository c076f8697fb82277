"""Views that are specifications, one file each: what it shows, what it needs, its tab."""
