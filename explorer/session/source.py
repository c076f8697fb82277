"""A model as a session has it: known by its kept programs, read when something is compiled.

source = ModelSource("net.onnx", "cpu", {}, cache)
source.interface.inputs     names, element types, shapes
source.request              what kept programs are looked for by; None where there is no file
source.model                the model itself, read now if it was not yet
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.backends.loading import saved_programs
from explorer.errors import ModelError
from explorer.files import ModelFiles, ModelPath
from explorer.results.runs.saved_program import ModelInterface
from explorer.runtime.cache import ProgramCache, default_cache
from explorer.runtime.cache.requests import ProgramRequest, request_of, varied
from explorer.runtime.element_types import know_element_types

if TYPE_CHECKING:
    from explorer.importers import SourceModel


class ModelSource:
    """Safe for threads."""

    def __init__(
        self,
        model: SourceModel | ModelPath,
        target: object,
        options: Mapping[str, Any],
        cache: ProgramCache,
    ) -> None:
        """`options` as `request_of` takes them. ModelError where a file has to be read and
        cannot be."""
        self._given = model
        self._lock = threading.Lock()
        self._model: SourceModel | None = None
        self.kept = saved_programs(cache)
        found = request_of(model, target, options)
        self.request = found if isinstance(found, ProgramRequest) else None
        self.undigested = "" if isinstance(found, ProgramRequest) else found.reason
        """Why nothing of it is kept."""
        interface = self.kept.interface(self.request) if self.request is not None else None
        self.interface = self._interface_of_model() if interface is None else interface
        know_element_types(value.element_type for value in self.interface.inputs)

    def varied(self, variant: str, model: SourceModel) -> ModelSource:
        """The source of a model that was made of this one's file, always in the same way.

        variant: says how; programs of the file itself, or made otherwise, are other ones.
        """
        found = copy.copy(self)
        found._lock, found._given, found._model = threading.Lock(), model, model
        if self.request is not None:
            found.request = varied(self.request, variant)
        return found

    @property
    def model(self) -> SourceModel:
        """ModelError where the file is not the one that the interface was read from."""
        with self._lock:
            if self._model is None:
                self._model = self._read()
            return self._model

    def _read(self) -> SourceModel:
        if not isinstance(self._given, str | Path | ModelFiles):
            return self._given
        from explorer.importers import load

        model = load(self._given)
        if self.request is not None and self.request.has_changed:
            raise ModelError(
                "the file changed since it was opened", file=str(self._given), hint="open it again"
            )
        return model

    def _interface_of_model(self) -> ModelInterface:
        from explorer.compilation.saving_programs import plain_interface

        return plain_interface(self.model)


def cache_with(cache: ProgramCache | None, shipped: Path | None) -> ProgramCache:
    """The cache, by default the environment's, with a file of shipped programs."""
    base = default_cache() if cache is None else cache
    if shipped is None:
        return base
    return ProgramCache(base.folder, base.limit_bytes, (*base.shipped, shipped))
