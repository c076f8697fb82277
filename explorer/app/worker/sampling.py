"""What a page draws beside the lines of kernels: how often each was at work, as JSON.

{"event": "cycles:u", "count": 421,
 "kernels": {"conv_1": {"source": [[41, 188]], "assembly": [[20, 109], [24, 18]]}}}
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from explorer.errors import InputError

if TYPE_CHECKING:
    from explorer.compilation import Compilation


def samples_text(compilation: Compilation) -> str:
    """Runs the program for a while. Errors say what this machine lacks or forbids."""
    from explorer.runtime.assembly.sampling import sample_program

    built = compilation.built
    if built.parts or not compilation.backend.builds_libraries:
        raise InputError(
            "only a program in C that is one part is sampled",
            hint="compile the model for the target cpu",
        )
    inputs = compilation.example_inputs()
    found = sample_program(built.program, built.weights, inputs, compilation.assembly())
    kernels = {
        name: {"source": sorted(own.source.items()), "assembly": sorted(own.assembly.items())}
        for name, own in found.kernels.items()
    }
    return json.dumps({"event": found.event, "count": found.count, "kernels": kernels})
