"""Search: what compiles and runs a kernel many times to find the schedule that is fastest here.

    result = explorer.tune(compilation, budget=24, seed=0)
    explorer.compile(model)                        uses what was kept
    compilation.fork(schedule=result.schedule)     the same, by hand

search.py leads through it: workloads.py is what is searched, proposals.py says what to try next,
building.py compiles in parallel, measuring.py times one at a time against the default, journal.py
keeps results as they come, so that a killed search goes on where it was.

Nothing is imported here: a process that only compiles needs little of it.
"""
