"""Programs that a session holds, and what calls met."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from explorer.results import ProgramLookup
from explorer.results.runs.sessions import WeightsReport
from explorer.runtime.executable import Executable
from explorer.session.signatures import Signature

if TYPE_CHECKING:
    from explorer.compilation import Compilation


@dataclass(eq=False)
class LoadedProgram:
    """One program of a session."""

    signature: Signature
    compilation: Compilation | None
    """None for a program that was started from what was kept: nothing was compiled."""
    executable: Executable
    seconds: float
    """Compiling and building, or starting."""
    lookup: ProgramLookup | None = None
    """Where its binary came from."""
    calls: int = 0
    weights: WeightsReport | None = None
    """What of its weights earlier programs have; None for the first one."""

    @cached_property
    def is_for_ranges(self) -> bool:
        """Whether it is for all sizes of a bucket."""
        shapes = (form.shape for form in self.signature.forms)
        return self.executable.program.length is None and any(
            isinstance(size, tuple) for shape in shapes for size in shape
        )

    def close(self) -> None:
        self.executable.close()
        if self.compilation is not None:
            self.compilation.close()


@dataclass(frozen=True, eq=False)
class Known:
    """What a call with inputs of a certain form met."""

    program: LoadedProgram
    text: str
    """Of the signature, for the log."""
