"""Fields of a machine of instructions: half of each and twice as much, where that is a machine.

target/engines.matrix.rows           8; 4 or 16
target/memories.buffers.size_bytes   49,152; 24,576 or 98,304
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from explorer.compilation.compiled import Compiled
from explorer.errors import ExplorerError
from explorer.results.decisions import TARGET
from explorer.results.levers import LeverOption, LeverRecord
from explorer.targets.overrides import write_record

FIELDS: Mapping[str, tuple[str, ...]] = {
    "matrix": ("batch", "rows", "columns"),
    "vector": ("lanes",),
    "dma": ("channels",),
    "scratchpad": ("size_bytes",),
    "dram": ("bytes_per_second", "latency_cycles"),
}
"""What decides cycles, by the kind of an engine or memory."""
WHY = "`explorer sweep --vary` compiles many machines, and serve --front opens what came of it"


def machine_levers(compiled: Compiled) -> Iterator[LeverRecord]:
    """The fields that the target states."""
    target = compiled.target
    table = write_record(target)
    for part in ("engines", "memories"):
        records = table.get(part)
        for name, record in records.items() if isinstance(records, dict) else ():
            kind = record.get("kind") if isinstance(record, dict) else None
            for field in FIELDS.get(str(kind), ()):
                value = record.get(field) if isinstance(record, dict) else None
                path = f"{part}.{name}.{field}"
                if isinstance(value, int | float) and (options := _options(compiled, path, value)):
                    yield LeverRecord(
                        address=f"{TARGET}/{path}",
                        group="machine",
                        of="",
                        title=path,
                        value=value,
                        options=options,
                        why=WHY,
                    )


def _options(compiled: Compiled, path: str, value: float) -> tuple[LeverOption, ...]:
    found: list[LeverOption] = []
    half = value // 2 if isinstance(value, int) else value / 2
    for other in (value * 2, half):
        try:
            compiled.target.with_(**{path: other})
        except ExplorerError:
            continue  # no such machine
        found.append(LeverOption(value=other, decisions=((f"{TARGET}/{path}", other),)))
    return tuple(found)
