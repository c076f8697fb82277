"""Handouts for print: one convolution on all levels, a memory puzzle, the IR on one page.

    write_handouts(Path("handouts"), students=(0, 1, 2))

Each is a page of HTML that loads nothing; its style has the size of the paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from explorer.course.puzzles.fit import STEPS, UNIT_BYTES, FitIt
from explorer.course.puzzles.networks import compiled
from explorer.files import write_file

NETWORK = "digits_cnn"
KERNEL = "conv_3x3_2"
AFTER = "fuse-activation"
MAX_CODE_LINES = 56
CELL = 26
"""Pixels of a unit of 16 bytes, and a quarter of a step's."""
_STYLE = """body { font: 13px/1.4 sans-serif; color: #111; margin: 0; }
h1 { font-size: 20px; margin: 0 0 6px; } h2 { font-size: 14px; margin: 10px 0 4px; }
pre { font: 9.5px/1.3 monospace; margin: 0; white-space: pre-wrap; }
.levels { display: grid; grid-template-columns: repeat(3, 1fr); gap: 14px; }
.levels > div { border-top: 2px solid #4c78a8; padding-top: 4px; overflow: hidden; }
table { border-collapse: collapse; } td, th { border: 1px solid #999; padding: 2px 8px; }
.solution { break-before: page; }"""

IR_PARTS = (
    ("%name", "a value: defined by one line, never changed"),
    ("top.conv", "an operation: its dialect and its name"),
    ("(%a, %w, bias = %b)", "operands: the values that it reads"),
    ('{strides = [1, 1], activation = "relu"}', "properties: constants of the operation"),
    ("tensor<1x32x8x8xf32>", "a type: sizes, and the type of a number (f32: 32 bits)"),
    ("#top.encoding<block = 4, halo = [...]>", "how the numbers lie in memory"),
    ("func.func @main(%image: ...)", "a function and its arguments"),
    ("top.return(%x)", "what the function gives"),
)


def write_handouts(folder: Path, students: Sequence[int] = (0,)) -> list[Path]:
    """Writes all handouts, a memory puzzle for each student's number; the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"one-convolution.html": one_convolution(), "reading-ir.html": reading_ir()}
    pages |= {f"memory-puzzle-{student}.html": memory_puzzle(student) for student in students}
    written = []
    for name, text in pages.items():
        write_file(folder / name, text)
        written.append(folder / name)
    return written


def one_convolution() -> str:
    """A convolution as node, IR, loops, scheduled loops, C and place in memory, on one A3 sheet."""
    c = compiled(NETWORK)
    kernel = c.kernels[KERNEL]
    (operation,) = kernel.operations
    sources = next(
        node.sources
        for node in c.trace(with_code=False).snapshots[-1].graph.nodes
        if node.id == operation
    )
    lines = c[AFTER].after.text.lines
    ir = next(line for line in lines if line.strip().startswith(f"%{operation} ="))
    assert c.memory is not None
    place = next(p for p in c.memory.placements if operation in p.buffer.values)
    levels = (
        ("Nodes of the file", [n.text for n in c.model.nodes if n.name in sources]),
        ("IR after fusion", [ir.strip()]),
        ("Memory", [
            f"{place.buffer.size_bytes:,} bytes at {place.offset_bytes:,}, live in steps "
            f"{place.buffer.first} to {place.buffer.last - 1} of {len(c.memory.steps)}"
        ]),
        ("Loops of the textbook", kernel.steps[0].text.lines),
        ("Loops as scheduled", kernel.steps[-1].text.lines),
        ("C", kernel.source.lines),
    )  # fmt: skip
    cells = "".join(f"<div><h2>{escape(t)}</h2>{_code(lines)}</div>" for t, lines in levels)
    title = f"One convolution on all levels: {operation} of {NETWORK}"
    return sheet(title, f'<div class="levels">{cells}</div>', "A3 landscape")


def reading_ir() -> str:
    """The parts of a line of IR, and a whole program, on one A4 sheet."""
    rows = "".join(
        f"<tr><td><code>{escape(part)}</code></td><td>{escape(text)}</td></tr>"
        for part, text in IR_PARTS
    )
    text = _code(compiled(NETWORK)[AFTER].after.text.lines)
    return sheet("Reading IR", f"<table>{rows}</table><h2>{NETWORK}</h2>{text}", "A4 landscape")


def memory_puzzle(student: int) -> str:
    """An instance of `fit_it` to solve with a pencil; the optimum is on the second page."""
    puzzle = FitIt(student)
    rows = "".join(
        f"<tr><td>{b.id}</td><td>{b.size_bytes}</td><td>{b.first}</td><td>{b.last - 1}</td></tr>"
        for b in puzzle.buffers
    )
    head = "<tr><th>buffer</th><th>bytes</th><th>first step</th><th>last step</th></tr>"
    units = int(puzzle.optimum) // UNIT_BYTES + 6
    task = (
        "Draw every buffer as a rectangle: its steps from left to right, its bytes from bottom to "
        f"top. Buffers that live in one step share no byte. One row is {UNIT_BYTES} bytes."
    )
    solved = _grid(units, [(b.id, puzzle.solution.offsets[b.id], b) for b in puzzle.buffers])
    body = (
        f"<p>{task}</p><table>{head}{rows}</table><h2>Your plan</h2>{_grid(units, [])}"
        f'<div class="solution"><h2>A best plan: {int(puzzle.optimum)} bytes</h2>{solved}</div>'
    )
    return sheet(f"Fit it, student {student}", body, "A4 portrait")


def _grid(units: int, placed: Iterable) -> str:
    """Steps and addresses as an SVG, with labelled boxes."""
    width, height = STEPS * 3 * CELL, units * CELL // 2
    lines = [f'<path d="M{x * 3 * CELL} 0V{height}" stroke="#aaa"/>' for x in range(STEPS + 1)] + [
        f'<path d="M0 {y * CELL // 2}H{width}" stroke="#ddd"/>' for y in range(units + 1)
    ]
    boxes = []
    for name, offset, buffer in placed:
        x, w = buffer.first * 3 * CELL, (buffer.last - buffer.first) * 3 * CELL
        top = units - (offset + buffer.size_bytes) // UNIT_BYTES
        h = buffer.size_bytes // UNIT_BYTES * CELL // 2
        y = top * CELL // 2
        boxes.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="#4c78a833" stroke="#4c78a8"/>'
            f'<text x="{x + 6}" y="{y + h / 2 + 4}" font-size="12">{escape(name)}</text>'
        )
    steps = [
        f'<text x="{(3 * x + 1.5) * CELL}" y="{height + 14}" font-size="11">{x}</text>'
        for x in range(STEPS)
    ]
    sizes = [
        f'<text x="-6" y="{(units - y) * CELL // 2 + 4}" font-size="10" text-anchor="end">'
        f"{y * UNIT_BYTES}</text>"
        for y in range(0, units + 1, 4)
    ]
    shapes = "".join([*lines, *boxes, *steps, *sizes])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-44 -8 {width + 52} {height + 28}" '
        f'width="{width + 52}" height="{height + 28}">{shapes}</svg>'
    )


def _code(lines: Sequence[str]) -> str:
    more = [] if len(lines) <= MAX_CODE_LINES else [f"… {len(lines) - MAX_CODE_LINES} more lines"]
    return f"<pre>{escape(chr(10).join([*lines[:MAX_CODE_LINES], *more]))}</pre>"


def sheet(title: str, body: str, paper: str, style: str = "") -> str:
    """A page of HTML with the size of the paper, which loads nothing."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title><style>@page {{ size: {paper}; margin: 12mm; }}\n{_STYLE}\n{style}</style></head>"
        f"<body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )
