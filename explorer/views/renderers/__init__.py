"""What draws a specification: one renderer each for text, HTML, JSON and the page."""
