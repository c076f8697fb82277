"""The worker's process, which compiles for a page."""
