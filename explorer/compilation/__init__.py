"""Compilations: pipelines, passes, forks, comparison, traces."""

from explorer.compilation.checking import Accuracy
from explorer.compilation.comparing import Comparison
from explorer.compilation.compilation import Compilation, compile_model
from explorer.compilation.saving import SavedCompilation, open_trace, save
from explorer.compilation.settings import Settings, default_pipeline

__all__ = [
    "Accuracy",
    "Comparison",
    "Compilation",
    "SavedCompilation",
    "Settings",
    "compile_model",
    "default_pipeline",
    "open_trace",
    "save",
]
