"""Grading: a student's answers are put into the reference lesson, which runs in a child process.

    for result in grade(Path("submissions")):
        result.student, result.exercise, result.points, result.message

Reading order: `answers` takes answers out of a notebook and says which are none, `child` runs a
lesson with them, `running` starts and limits the child, `grading` goes over students, `reports`
writes tables and pages.
"""

from explorer.course.grading.grading import Result, grade

__all__ = ["Result", "grade"]
