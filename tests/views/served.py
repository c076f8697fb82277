"""The app on an invented compiler, as a process of its own: `python served.py <token> <models>`.

The compiler takes three steps, fails for the target `broken`, and never ends for `endless`.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import synthetic

from explorer.app.session import Compiled


def invented_compiler(
    path: str, target: str, disable: Sequence[str], progress: Callable[[str, int, int], None]
) -> Compiled:
    """The synthetic trace of a model that is named by its file."""
    for index, name in enumerate(("import", "fold", "fuse")):
        progress(name, index, 3)
    if target == "broken":
        raise ValueError("no device was found\nexpected a driver\ntry the target cpu")
    while target == "endless":
        time.sleep(0.05)
    mark = synthetic.HOSTILE if "hostile" in Path(path).name else ""
    trace = synthetic.make_trace(mark=mark, fused="fuse-activation" not in disable)
    return Compiled(trace, ("remove-identities", "fuse-activation", "fuse-add"))


if __name__ == "__main__":
    # A worker imports the compiler by name: it must not be called `__main__`.
    from served import invented_compiler as compiler

    from explorer.app.application import serve

    serve(
        sys.argv[2:],
        token=sys.argv[1],
        open_browser=False,
        targets=("cpu", "broken", "endless"),
        compiler=compiler,
    )
