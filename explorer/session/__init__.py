"""A model that is called with arrays and compiled for what it is called with.

    session = ex.Session("net.onnx", "cpu", mode="lazy")
    session({"image": x})["scores"]     compiled for x's shape, by mode at once or later
    session.why()                       why the last call was not answered by a known program
    session.calls                       every call: answered by what, for what reason, how fast
    start("net.onnx").run({"x": x})     one program, the kept one where there is one

signatures.py says what a program was made for, fallback.py answers while there is none,
session.py decides between them; source.py is the model, read only when it has to be.
"""

from explorer.results import SessionCall
from explorer.session.fallback import Fallback
from explorer.session.loading import Started, start
from explorer.session.session import MODES, Session
from explorer.session.signatures import Signature
from explorer.session.source import ModelSource

__all__ = [
    "MODES",
    "SessionCall",
    "Fallback",
    "ModelSource",
    "Session",
    "Signature",
    "Started",
    "start",
]
