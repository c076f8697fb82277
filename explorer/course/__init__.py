"""What the lessons of the course ask with."""
