"""Models of two files in the page: together, one after the other, and in a zip file."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from verification.conformance.caffe.models import one_layer

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NET, WEIGHTS = one_layer(
    "InnerProduct", "inner_product_param { num_output: 2 bias_term: false }", [(3, 5)],
    [np.ones((2, 5), np.float32)],
)  # fmt: skip


def test_both_files_of_a_net_become_one_model(visit: Callable[..., Any], tmp_path: Path):
    files = {
        "deploy.prototxt": NET.encode(),
        "iter_10.caffemodel": WEIGHTS,
        "b.caffemodel": WEIGHTS,
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with zipfile.ZipFile(tmp_path / "net.zip", "w") as archive:
        for name in ("deploy.prototxt", "iter_10.caffemodel"):
            archive.writestr(name, files[name])
    seen = visit()
    page = seen.page

    def send(*names: str) -> None:
        chosen = [str(tmp_path / name) for name in names]
        page.get_by_label("model file").set_input_files(chosen)

    send("deploy.prototxt")
    expect(page.locator(".banner.notice")).to_contain_text("came without its weights")
    page.get_by_role("button", name="dismiss").click()
    expect(page.locator(".banner.refused")).to_contain_text("its weights are missing")
    send("b.caffemodel")
    expect(page.locator(".document.current")).to_contain_text("deploy.prototxt + b.caffemodel")
    expect(page.locator(".pass-row").nth(9)).to_be_visible()
    expect(page.locator(".banner")).to_have_count(0)
    send("deploy.prototxt", "iter_10.caffemodel")
    expect(page.locator(".document.current")).to_contain_text(
        "deploy.prototxt + iter_10.caffemodel"
    )
    expect(page.locator(".pass-row").nth(9)).to_be_visible()
    send("net.zip")
    expect(page.locator(".document.current")).to_contain_text("net.zip")
    expect(page.locator(".pass-row").nth(9)).to_be_visible()
    assert seen.is_clean(), seen
