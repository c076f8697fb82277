"""The same number reads alike in page and notebook."""

import json
import random
import subprocess
from itertools import pairwise
from typing import Any

from playwright._impl._driver import compute_driver_executable

from explorer.views import module, numbers

PAIRS = {
    "bytesText": numbers.format_bytes,
    "secondsText": numbers.format_seconds,
    "picojoulesText": numbers.format_picojoules,
    "amountText": numbers.format_amount,
    "errorText": numbers.format_error,
    "decibelsText": numbers.format_decibels,
    "percentText": numbers.format_percent,
}
TEXTS = """
import {readFileSync} from "node:fs";
const calls = JSON.parse(readFileSync(0, "utf-8"));
const texts = calls.map(([name, given]) => given.map((numbers) => page[name](...numbers)));
console.log(JSON.stringify(texts));
"""


def some_numbers() -> list[float]:
    """Halves of the last digit that is shown, which round up, and numbers of every size."""
    generator = random.Random(0)
    halves = [14.25, 2.5, 0.125, 99.95, 999.5, 1023.5, 14.25 * 1024, 1.25e-3, 2.25, 0.5, 62.5]
    spread = [generator.uniform(1, 10) * 10 ** generator.randrange(-6, 9) for _ in range(400)]
    return [0.0, 1.0, 100.0, 123.4, *halves, *spread]


def in_page(calls: list[tuple[str, list[tuple[float, ...]]]]) -> list[list[str]]:
    """What functions of the page's module make of several arguments each, in Node.js."""
    file = module.FOLDER / "js" / "ground" / "numbers.js"
    script = f"import * as page from {json.dumps(file.as_uri())};{TEXTS}"
    node: Any = compute_driver_executable()[0]
    run = subprocess.run(
        [node, "--input-type=module", "--eval", script],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def test_page_and_notebook_round_alike():
    given = some_numbers()
    pairs = list(pairwise(given[1:]))
    *texts, ratios = in_page(
        [*((name, [(n,) for n in given]) for name in PAIRS), ("ratioText", pairs)]
    )
    for (name, python), shown in zip(PAIRS.items(), texts, strict=True):
        assert list(zip(given, shown, strict=True)) == [(n, python(n)) for n in given], name
    assert ratios == [numbers.format_ratio(a, b) for a, b in pairs]
