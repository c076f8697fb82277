"""Machines to try: any that is legal and that schedules suit."""

from hypothesis import reject
from hypothesis import strategies as st
from npu_layers import machine

from explorer.errors import InputError


@st.composite
def machines(draw):
    """Legal machines of any array, types, banks and sizes, with three queues."""
    input_bits, weight_bits = draw(st.sampled_from([(8, 8), (4, 4), (16, 8), (8, 4), (16, 16)]))
    even = 2 if min(input_bits, weight_bits) == 4 else 1
    rows, columns, batch = (draw(st.integers(1, most)) for most in (9, 9, 5))
    set_ = draw(st.sampled_from(["full", "full", "vta"]))
    columns = rows if set_ == "vta" else columns
    overrides = {
        "engines.matrix.rows": rows * even,
        "engines.matrix.columns": columns * even,
        "engines.matrix.batch": 1 if set_ == "vta" else batch,
        "engines.matrix.input_bits": input_bits,
        "engines.matrix.weight_bits": weight_bits,
        "instructions.set": set_,
        "requantization.rounding": draw(
            st.sampled_from(["nearest_even", "nearest_up", "nearest_away_from_zero"])
        ),
    }
    if set_ == "vta":
        overrides |= {
            "engines.vector.operations": [
                "minimum",
                "maximum",
                "add",
                "shift_right",
                "multiply",
            ],
            "engines.vector.table_entries": None,
            "requantization.scheme": "shift",
            "requantization.rounding": "down",
            "queues.compute.loads": ["micro_operations", "accumulators"],
        }
    else:
        scheme = draw(st.sampled_from(["multiplier_shift", "doubling_high_multiply"]))
        overrides["requantization.scheme"] = scheme
    # Fewer tokens than buffers would be a deadlock, of which the checks tell.
    overrides |= {
        "instructions.fetch_cycles": draw(st.integers(0, 9)),
        "engines.dma.channels": draw(st.integers(1, 3)),
        "engines.vector.lanes": draw(st.integers(1, 20)),
        "queues.load.entries": draw(st.integers(1, 4)),
        "queues.compute.entries": draw(st.integers(1, 6)),
        "queues.compute.tokens": draw(st.integers(3, 5)),
    }
    if draw(st.booleans()):
        overrides |= {
            "memories.dram.burst_bytes": draw(st.sampled_from([1, 8, 64])),
            "memories.dram.row_bytes": draw(st.sampled_from([64, 192, 2048])),
            "memories.dram.row_cycles": draw(st.integers(0, 30)),
        }
    sizes = {"inputs": (200, 4000), "weights": (400, 9000), "accumulators": (600, 9000),
             "micro_operations": (40, 400)}  # fmt: skip
    for name, (least, most) in sizes.items():
        banks = draw(st.integers(1, 4))
        overrides[f"memories.{name}.banks"] = banks
        size = draw(st.integers(least, most))
        overrides[f"memories.{name}.size_bytes"] = max(1, size // (4 * banks)) * 4 * banks
    try:
        return machine("odd-12x20", **overrides)
    except InputError as error:
        # VTA's micro-operations have 32 bits for three addresses: of scratchpads too large for
        # that there is no such machine.
        if set_ != "vta" or "a micro-operation addresses" not in error.message:
            raise
        reject()
