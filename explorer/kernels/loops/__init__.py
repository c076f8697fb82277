"""Loop nests: how they are made, found and counted."""
