"""Subcommands of `explorer` that only a clone of the repository has, one file each."""
