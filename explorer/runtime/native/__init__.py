"""C programs: built, loaded in a process of their own, called."""
