"""What the lessons of the course ask with: predictions, and exercises with their judges."""

from explorer.course.predictions import check, predict, skip

__all__ = ["check", "predict", "skip"]
