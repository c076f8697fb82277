"""What holds something until it is closed, and closes it at the end of a `with` statement."""

from __future__ import annotations

from typing import Self


class Closing:
    """A base for what has a `close` that may be called several times."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *of_error: object) -> None:
        self.close()
