"""What a try of a sequence raises where a difference is explained."""


class DocumentedError(Exception):
    """A difference that the table of disagreements explains."""
