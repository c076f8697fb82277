"""Histograms and candidates of calibration, small enough to travel with a table and a trace.

    seen = observed_tensor(histogram, ranges, bits)          16,384 bins become at most 256
    write_observations(path, {"relu3": seen})            beside it: net.table.observed.npz
    read_observations(path)                                  the same again; nothing is unpickled

A table decides what is compiled, and these only explain it: they are in no digest, and a table
without them compiles to the same program.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from explorer.errors import InputError
from explorer.files import reading_file, write_file
from explorer.quantization.histogram import SIDE, Histogram
from explorer.quantization.methods import Range, squared_error
from explorer.results.encoding import from_json, to_json
from explorer.results.runs.quantization import ObservedTensor, RangeCandidate, ValueHistogram

MAX_BINS = 256
MAX_BYTES = 256 << 20
"""Of a file that is read."""
RECORDS, COUNTS, LENGTHS = "records", "counts", "lengths"

Observations = Mapping[str, ObservedTensor]


def observed_tensor(
    histogram: Histogram, ranges: Iterable[tuple[str, Range, float | None]], bits: int
) -> ObservedTensor:
    """ranges: (method, what it represents, signal to noise of the outputs where measured)."""
    candidates = tuple(
        RangeCandidate(
            method=method,
            low=chosen.low,
            high=chosen.high,
            squared_error=squared_error(histogram, chosen, bits),
            outputs_db=measured,
        )
        for method, chosen, measured in ranges
    )
    return ObservedTensor(histogram=compact(histogram), candidates=candidates, bits=bits)


def compact(histogram: Histogram) -> ValueHistogram:
    """The bins from the lowest to the highest number, neighbours added up until they are few.

    Neighbours are added in powers of two that zero divides, so that counts stay exact.
    """
    filled = np.flatnonzero(histogram.counts)
    first, last = (int(filled[0]), int(filled[-1]) + 1) if filled.size else (SIDE, SIDE + 1)
    factor = 1
    while -(-last // factor) - first // factor > MAX_BINS:
        factor *= 2
    first, last = first // factor * factor, -(-last // factor) * factor
    counts = histogram.counts[first:last].reshape(-1, factor).sum(axis=1)
    return ValueHistogram(
        start=(first - SIDE) * histogram.width,
        width=factor * histogram.width,
        counts=tuple(counts.tolist()),
        low=histogram.low if histogram.count else 0.0,
        high=histogram.high if histogram.count else 0.0,
        zeros=histogram.zeros,
    )


def path_beside(table: Path) -> Path:
    """Where the histograms of a table lie: `net.table` has them in `net.table.observed.npz`."""
    return table.with_name(f"{table.name}.observed.npz")


def write_observations(path: Path, observations: Observations, model: str) -> None:
    """model: digest of the file that they were seen in, or empty."""
    counts = [seen.histogram.counts for seen in observations.values()]
    bare = {name: _without_counts(seen) for name, seen in observations.items()}
    text = json.dumps({"model": model, "tensors": bare})
    file = io.BytesIO()
    np.savez_compressed(
        file,
        **{
            RECORDS: np.frombuffer(text.encode(), np.uint8),
            COUNTS: np.concatenate([np.asarray(c, np.int64) for c in counts] or [np.zeros(0)]),
            LENGTHS: np.asarray([len(c) for c in counts], np.int64),
        },
    )
    write_file(path, file.getvalue())


def read_observations(path: Path, model: str) -> Observations:
    """Those of a model; none where there is no such file, or it is about another model.

    Whatever a person edited in the table: what was seen of the tensors stays as it was.

    Raises:
        InputError: where there is a file and it cannot be read.
    """
    if not path.is_file():
        return {}
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"more than {MAX_BYTES >> 20} MiB are no histograms", file=str(path))
    hint = "explorer calibrate writes it anew; a table is taken without it, too"
    with (
        reading_file(path, "file of histograms", hint=hint, kind=InputError),
        np.load(path, allow_pickle=False) as file,
    ):
        said = json.loads(file[RECORDS].tobytes())
        if model and said["model"] and said["model"] != model:
            return {}
        lengths = file[LENGTHS]
        pieces = np.split(file[COUNTS], np.cumsum(lengths)[:-1])
        return {
            name: _with_counts(record, piece)
            for (name, record), piece in zip(said["tensors"].items(), pieces, strict=True)
        }


def _without_counts(seen: ObservedTensor) -> dict[str, object]:
    record = to_json(seen)
    record["histogram"]["counts"] = []
    return record


def _with_counts(record: dict[str, dict[str, object]], counts: np.ndarray) -> ObservedTensor:
    record["histogram"]["counts"] = counts.tolist()
    return from_json(ObservedTensor, record)
