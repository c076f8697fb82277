"""The file: read within bounds, checked, nothing executed."""
