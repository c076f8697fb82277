"""Packages for an OpenCL device: the binary where it fits, the text elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import explorer
from explorer.errors import InputError
from tests.packaging.building import MODELS, run

pytestmark = pytest.mark.opencl
FLAGS = ("-DEXACT", "-Werror", "-pedantic-errors")


@pytest.fixture(autouse=True)
def header(opencl_device_record) -> None:
    found = subprocess.run(
        ["cc", "-x", "c", "-E", "-", "-lOpenCL"],
        input="#include <CL/cl.h>\n",
        capture_output=True,
        text=True,
    )
    if found.returncode:
        pytest.skip("the headers of OpenCL are not installed")


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> dict[bool, Path]:
    """By whether they are stripped."""
    c = explorer.compile(MODELS / "digits_mlp.onnx", target="opencl")
    place = tmp_path_factory.mktemp("opencl")
    found = {strip: c.package(place / f"strip-{strip}", strip=strip) for strip in (False, True)}
    c.close()
    return found


def for_another_device(folder: Path) -> None:
    """As if the binary were another driver's."""
    (file,) = (folder / "src").glob("*_binary.h")
    text = file.read_text()
    file.write_text(re.sub(r'(binary_device\[3\] = {\s+")', r"\1another ", text))


def test_the_self_test_takes_the_binary_of_this_device(packages, built):
    copy = built(packages[False], *FLAGS)
    assert run(copy / "selftest") == "2 vectors, the binary, ok\n"
    text = "\n".join(run("make", "-s", "example", folder=copy).splitlines())
    assert not text and run(copy / "example" / "main") == "logits: 40 bytes\n"


def test_another_device_builds_the_text(packages, copied, built):
    folder = copied(packages[False])
    for_another_device(folder)
    assert run(built(folder, *FLAGS) / "selftest") == "2 vectors, the source, ok\n"


def test_a_damaged_binary_is_replaced_by_the_text(packages, copied, built):
    folder = copied(packages[False])
    (file,) = (folder / "src").glob("*_binary.h")
    text = file.read_text()
    data = re.search(r"binary\[\d+\] = {(.*)};", text, re.DOTALL)
    assert data is not None
    file.write_text(re.sub(r"binary\[\d+\] = {.*};", "binary[4] = {1, 2, 3, 4};", text, flags=re.S))
    assert run(built(folder, *FLAGS) / "selftest") == "2 vectors, the source, ok\n"


def test_a_stripped_package_has_no_text_and_refuses_other_devices(packages, copied, built):
    folder = packages[True]
    assert not list(folder.rglob("*.cl")) and not list(folder.rglob("*_source.h"))
    assert run(built(folder, *FLAGS) / "selftest") == "2 vectors, the binary, ok\n"
    for path in folder.rglob("*.*"):
        if path.is_file():
            assert b"matmul" not in path.read_bytes() and b"digits" not in path.read_bytes()
    other = copied(folder)
    for_another_device(other)
    finished = subprocess.run([built(other) / "selftest"], capture_output=True, text=True)
    assert finished.returncode == 1 and "status 2" in finished.stdout


def test_the_manifest_lists_the_text(packages):
    table = json.loads((packages[False] / "manifest.json").read_text())
    assert table["target"] == table["c_target"] == "opencl"
    assert "src/digits_mlp_kernels.cl" in table["files"]


def test_what_opencl_packages_do_not_have_is_refused(tmp_path):
    c = explorer.compile(MODELS / "digits_mlp.onnx", target="opencl")
    with pytest.raises(InputError, match="weights in arrays"):
        c.package(tmp_path / "package", weights="file")
    c = explorer.compile(MODELS / "digits_mlp.onnx", target="opencl", dimensions={"batch": (1, 4)})
    with pytest.raises(InputError, match="left open"):
        c.package(tmp_path / "package")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["opencl", "opencl_gpu"])
@pytest.mark.parametrize("model", ["digits_cnn", "digits_resnet", "digits_transformer"])
def test_packages_of_sample_models(packaged, built, model, target):
    printed = run(built(packaged(model, target), "-Werror") / "selftest")
    assert printed == "2 vectors, the binary, ok\n"
