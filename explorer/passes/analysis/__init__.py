"""Questions that passes ask, and that change nothing."""
