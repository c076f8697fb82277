"""Weights and constants where they lie in the archive: views of its bytes.

{"config": {"conv.weight": {"path_name": "weight_0", "use_pickle": false, "tensor_meta": {...}}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any  # JSON

import numpy as np

from explorer.errors import ModelError
from explorer.importers.building.limits import check_extent
from explorer.importers.pytorch.file.archive import Archive
from explorer.importers.pytorch.file.decoding import value_type
from explorer.importers.pytorch.file.fields import DAMAGED, field
from explorer.ir.types import ELEMENT_TYPES, numpy_dtype

LARGEST_REPEATED_BYTES = 1 << 20
"""Of a tensor whose elements share bytes, beyond what it takes in the file."""


def weights_of(archive: Archive) -> dict[str, np.ndarray]:
    """Parameters, buffers and constants by their names in the module.

    Of complex numbers both parts are a last axis.
    """
    found: dict[str, np.ndarray] = {}
    for folder, config in (
        ("data/weights", "model_weights_config.json"),
        ("data/constants", "model_constants_config.json"),
    ):
        if archive.has(f"{folder}/{config}"):
            listed = field(archive.json(f"{folder}/{config}"), "config", dict, config)
            for name, payload in listed.items():
                member = field(payload, "path_name", str, f"tensor {name!r}")
                if member.startswith("custom_obj_"):
                    raise ModelError(f"{name!r} is an object of TorchScript, not a tensor")
                found[name] = _tensor(archive, name, f"{folder}/{member}", payload)
    return found


def _tensor(archive: Archive, name: str, member: str, payload: Mapping[str, Any]) -> np.ndarray:
    if payload.get("use_pickle"):
        raise ModelError(
            f"tensor {name!r} is pickled: reading it would run what is in it",
            hint="export the module again with plain tensors: no quantized ones, no subclasses",
        )
    json = field(payload, "tensor_meta", dict, f"tensor {name!r}")
    kind = value_type(json, f"tensor {name!r}")
    if kind.of_part.element_type not in ELEMENT_TYPES:
        raise ModelError(f"tensor {name!r} has elements of {kind.element_type}")
    part = numpy_dtype(ELEMENT_TYPES[kind.of_part.element_type])
    dtype = np.dtype(kind.element_type) if kind.is_complex else part
    sizes, strides = _numbers(kind.sizes, name), _numbers(kind.strides, name)
    begin = field(json, "storage_offset", dict, f"tensor {name!r}")
    offset = field(begin, "as_int", int, f"the offset of tensor {name!r}")
    content = archive.view(member)
    available = len(content) // dtype.itemsize
    check_extent(sizes, dtype.itemsize, f"tensor {name!r}")
    if 0 in sizes:
        return np.zeros((*sizes, 2) if kind.is_complex else sizes, part)
    reach = offset + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
    if min(offset, *strides, 0) < 0 or reach >= available:
        raise ModelError(
            f"tensor {name!r} of shape {'x'.join(map(str, sizes)) or '1'} reaches element "
            f"{reach:,} of {available:,} in the file",
            hint="the file is damaged or cut off",
        )
    size_bytes = prod(sizes) * dtype.itemsize
    if size_bytes > max(len(content), LARGEST_REPEATED_BYTES):
        raise ModelError(
            f"the elements of tensor {name!r} overlap: {size_bytes:,} bytes of {len(content):,}",
            hint="call contiguous() on it before the export",
        )
    array = np.frombuffer(content, dtype, available)
    steps = [step * dtype.itemsize for step in strides]
    view = np.lib.stride_tricks.as_strided(array[offset:], sizes, steps, writeable=False)
    return np.stack([np.real(view), np.imag(view)], -1) if kind.is_complex else view


def _numbers(values: tuple[Any, ...], name: str) -> tuple[int, ...]:
    if not all(isinstance(value, int) for value in values):
        raise ModelError(f"the shape of tensor {name!r} is not known", hint=DAMAGED)
    return tuple(values)
