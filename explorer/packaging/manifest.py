"""manifest.json: what the package was made of, and the SHA-256 of every other file.

Everything in it follows from the model, the options and this target: no date, no path,
no name of a machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from explorer.packaging.building import REQUIRED_FLAGS, flags_of
from explorer.packaging.memories import memories_of
from explorer.packaging.source import PackagePort, PackageSource
from explorer.targets.overrides import write_record

FORMAT = "explorer package"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"


def manifest_text(source: PackageSource, files: Mapping[str, bytes]) -> str:
    """The JSON text for these files."""
    table = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "content": source.version,
        "name": source.name,
        "model": None if source.is_stripped else source.model,
        "model_sha256": source.model_digest,
        "target": source.device,
        "c_target": source.target.name,
        "target_fields": write_record(source.target),
        "options": {
            "optimize": source.target.optimize,
            "weights": source.storage,
            "strip": source.is_stripped,
            "threads": source.threads,
        },
        "settings": None if source.is_stripped else source.settings,
        "flags": _flags(source),
        "arena_bytes": source.program.arena_bytes,
        "arena_alignment_bytes": source.alignment_bytes,
        "memories": [
            {"name": memory.name, "first_byte": memory.first, "size_bytes": memory.size_bytes}
            for memory in memories_of(source)
        ],
        "weights_bytes": source.program.weights_bytes,
        "inputs": [_port(p, f"in{i}", source) for i, p in enumerate(source.inputs)],
        "outputs": [_port(p, f"out{i}", source) for i, p in enumerate(source.outputs)],
        "sizes": _sizes(source),
        "memory": _memory(source),
        "parts": [
            {
                "function": part.function,
                "device": part.npu.device if part.npu else source.target.name,
                "launches": list(part.launches),
            }
            for part in source.parts
        ],
        "layers": _layers(source),
        "vectors": len(source.vectors),
        "accuracy": source.accuracy,
        "files": {
            path: {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
            for path, data in sorted(files.items())
        },
    }
    return json.dumps(table, indent=1, allow_nan=False) + "\n"


def _flags(source: PackageSource) -> list[str]:
    chosen, optional = flags_of(source.target, source.threads)
    return [*REQUIRED_FLAGS, *chosen, *(f"{flag}?" for flag in optional)]


def _port(found: PackagePort, name: str, source: PackageSource) -> dict[str, Any]:
    port = found.port
    return {
        "name": name if source.is_stripped else port.name,
        "element_type": port.element_type,
        "shape": list(port.shape),
        "offset_bytes": port.offset_bytes,
        "size_bytes": port.size_bytes,
        "scale": float(found.scale) or None,
        "zero_point": found.zero_point,
    }


def _sizes(source: PackageSource) -> list[dict[str, Any]]:
    """The open dimensions, in the order of a run's arguments."""
    if source.sizes is None:
        return []
    return [
        {
            "name": argument if source.is_stripped else dimension,
            "argument": argument,
            "lowest": low,
            "highest": high,
        }
        for (dimension, low, high), argument in zip(
            source.sizes.sizes.ranges, source.sizes.parameters.values(), strict=True
        )
    ]


def _memory(source: PackageSource) -> dict[str, Any]:
    plan = source.plan
    return {
        "peak_bytes": plan.peak_bytes,
        "bound_bytes": plan.bound_bytes,
        "optimal": plan.optimal,
        "buffers": [
            {
                "name": f"b{number}" if source.is_stripped else place.buffer.id,
                "offset_bytes": place.offset_bytes,
                "size_bytes": place.buffer.size_bytes,
                "first": place.buffer.first,
                "last": place.buffer.last,
            }
            for number, place in enumerate(plan.placements)
        ],
    }


def _layers(source: PackageSource) -> list[dict[str, Any]]:
    """The launches in order: kernel, nodes, and the bytes of weights that it reads first."""
    seen: set[int] = set()
    layers = []
    for number, launch in enumerate(source.program.launches):
        own = [a for a in launch.arguments if a.space == "weights" and a.offset_bytes not in seen]
        seen.update(a.offset_bytes for a in own)
        record = source.records[launch.kernel]
        layers.append(
            {
                "name": f"l{number}" if source.is_stripped else launch.operation,
                "kernel": launch.kernel,
                "functions": [phase.function for phase in record.phases],
                "nodes": [] if source.is_stripped else list(launch.sources),
                "operations": record.flops,
                "weights_bytes": sum(a.size_bytes for a in own),
            }
        )
    return layers
