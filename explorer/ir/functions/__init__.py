"""Functions of a program: which are called, and those that the host runs."""
