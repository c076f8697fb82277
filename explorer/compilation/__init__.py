"""Compilations: pipelines, passes, forks, comparison, traces."""

from explorer.compilation.checking import Accuracy
from explorer.compilation.comparing import Comparison
from explorer.compilation.compilation import Compilation, compile_model
from explorer.compilation.frames import Table
from explorer.compilation.inspecting import Inspection, inspect_model
from explorer.compilation.ladders import Ladder
from explorer.compilation.saving import SavedCompilation, open_trace, save
from explorer.compilation.settings import Settings, default_pipeline

__all__ = [
    "Accuracy",
    "Comparison",
    "Compilation",
    "Inspection",
    "Ladder",
    "SavedCompilation",
    "Settings",
    "Table",
    "compile_model",
    "default_pipeline",
    "inspect_model",
    "open_trace",
    "save",
]
