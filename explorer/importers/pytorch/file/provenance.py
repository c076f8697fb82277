"""Where in the author's program a node stands, from the texts that a file has for it.

stack_trace       File "/home/ann/net.py", line 9, in forward
                      y = self.conv(x)                          ->  ann/net.py, 9, the text
nn_module_stack   L__self__,,Net;L__self___conv,conv,Conv2d     ->  conv, Conv2d
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePosixPath, PureWindowsPath

from explorer.importers.pytorch.file.program import Frame, Provenance

LONGEST_TEXT = 200
"""Characters of a line of Python."""
MAX_FRAMES = 16
_LOCAL = re.compile(r"^L\['\w+'\]\.?")
"""What Dynamo calls the module itself in front of a path."""
_LIBRARY = re.compile(
    r"(^|[/\\])torch[/\\](_\w+|autograd|export|functional\.py|fx|nn|overrides\.py|utils)([/\\.]|$)"
    r"|^<(eval_with_key|frozen|string)"
)
"""Files of PyTorch, wherever it is installed, and code that it made."""
_FRAME = re.compile(r'^\s*File "([^"\n]{1,1000})", line (\d{1,9}), in ([^\n]{1,200})$')


def provenance_of(metadata: Mapping[str, object]) -> Provenance:
    """What the texts say; nothing for texts of another form."""
    trace, stack = metadata.get("stack_trace"), metadata.get("nn_module_stack")
    module, module_class = _module(stack) if isinstance(stack, str) else ("", "")
    frames = _frames(trace) if isinstance(trace, str) else ()
    return Provenance(module, module_class, frames)


@lru_cache(maxsize=4096)
def _module(stack: str) -> tuple[str, str]:
    """Path and class of the innermost module that has a path."""
    for entry in reversed(stack.split(";")):
        parts = entry.split(",")
        if len(parts) >= 3 and parts[0].startswith("L") and _is_path(parts[1]):
            path = _LOCAL.sub("", parts[1].split("@")[0])
            return path, parts[2].rsplit(".", 1)[-1]
    return "", ""


def _is_path(text: str) -> bool:
    return bool(text) and len(text) < 500 and "_empty_nn_module_stack" not in text


@lru_cache(maxsize=4096)
def _frames(trace: str) -> tuple[Frame, ...]:
    frames: list[Frame] = []
    for line in trace.split("\n")[: 4 * MAX_FRAMES]:
        match = _FRAME.match(line)
        if match is not None:
            file, number, function = match.groups()
            is_library = _LIBRARY.search(file) is not None
            frames.append(Frame(_shown(file), int(number), function, "", is_library))
        elif frames and not frames[-1].text and line.strip():
            last = frames[-1]
            text = line.strip()[:LONGEST_TEXT]
            frames[-1] = replace(last, text=text)
    return tuple(frames[-MAX_FRAMES:])


def _shown(path: str) -> str:
    kind = PureWindowsPath if "\\" in path else PurePosixPath
    return "/".join(kind(path).parts[-2:])
