"""Compilations: pipelines, passes, forks, comparison, traces."""

from explorer.compilation.checking import Accuracy
from explorer.compilation.compilation import Compilation, compile_model
from explorer.compilation.compiling import compile
from explorer.compilation.inspecting import Inspection, inspect_model
from explorer.compilation.measurements.schedule_steps import Ladder
from explorer.compilation.settings.settings import Settings, default_pipeline
from explorer.traces.comparing import Comparison
from explorer.traces.saving import SavedCompilation, open_trace, save
from explorer.traces.tables import Table

__all__ = [
    "Accuracy",
    "Comparison",
    "Compilation",
    "Inspection",
    "Ladder",
    "SavedCompilation",
    "Settings",
    "Table",
    "compile",
    "compile_model",
    "default_pipeline",
    "inspect_model",
    "open_trace",
    "save",
]
