"""The named steps of a schedule: functions that turn a loop nest into the next one.

Each checks its legality first and raises ScheduleError(step, kernel, reason), leaving a nest that
must not be used any further. Grouped by what they change: restructure.py (split, cut, reorder,
merge), registers.py (accumulate, rfactor, contract), fuse.py, pack.py, vectorize.py, mark.py
(unroll, parallel), winograd.py, forward.py. dependences.py answers what is legal.

catalogue.py lists them by name: what a schedule that is data may ask for.
"""
