"""Tables of thresholds and modes as files."""

from dataclasses import replace

import numpy as np
import pytest

from explorer.errors import InputError
from explorer.quantization.corrections.record import Corrections
from explorer.quantization.table import (
    Threshold,
    ThresholdTable,
    read_modes,
    read_thresholds,
    require_known,
    require_scale,
    write_modes,
    write_thresholds,
)

TABLE = ThresholdTable(
    {
        "conv1": Threshold("conv1", 0.1 + 0.2, np.float64(-0.3), 0.1),
        "a b:0/x": Threshold("a b:0/x", 5.0, 0.0, 5.0),
        "größe": Threshold("größe", 1e-30, -1e-30, 0.0),
    },
    model="0123456789abcdef",
    method="kl, 200 examples",
)


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "table"
    write_thresholds(path, TABLE)
    found = read_thresholds(path)
    assert found.thresholds == TABLE.thresholds
    assert (found.model, found.method) == (TABLE.model, TABLE.method)
    assert found.digest == TABLE.digest


def test_line_ends_of_windows_are_read(tmp_path):
    path = tmp_path / "table"
    write_thresholds(path, TABLE)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_thresholds(path).thresholds == TABLE.thresholds
    modes = tmp_path / "modes"
    modes.write_bytes(b"# name mode\r\nconv1 F32\r\n")
    assert read_modes(modes) == {"conv1": "F32"}


def test_a_file_whose_name_the_locale_does_not_know_is_found_again(tmp_path):
    table = replace(TABLE, corrections=Corrections(kinds=("bias",)))
    write_thresholds(tmp_path / "t\udcc3\udca4ble", table)  # `täble` where the locale is C
    assert read_thresholds(tmp_path / "täble").corrections == table.corrections


def test_modes_are_written_and_read(tmp_path):
    modes = {"conv 1": "F32", "fc": "INT16"}
    write_modes(tmp_path / "modes", modes)
    assert read_modes(tmp_path / "modes") == modes


@pytest.mark.parametrize("header", ["", "# op_name    threshold    min    max\n", "###\n#\n\n"])
def test_tables_of_others_are_read_with_and_without_a_header(tmp_path, header):
    path = tmp_path / "table"
    path.write_text(f"{header}conv1   2.5\t-2.25 2.5\nrelu1 5 0 5\n")
    found = read_thresholds(path)
    assert found.thresholds["conv1"] == Threshold("conv1", 2.5, -2.25, 2.5)
    assert list(found.thresholds) == ["conv1", "relu1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no thresholds"),
        ("conv1 1 2", "3 words"),
        ("conv1 x -1 1", "`x` is no number"),
        ("conv1 0 -1 1", "is 0, not positive"),
        ("conv1 -2 -1 1", "is -2, not positive"),
        ("conv1 nan -1 1", "only finite"),
        ("conv1 1 -inf 1", "only finite"),
        ("conv1 1 1 -1", "is empty"),
        ("a 1 -1 1\na 1 -1 1", "stands there twice"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(tmp_path, text, said):
    path = tmp_path / "table"
    path.write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        read_thresholds(path)
    assert str(path) in caught.value.file


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "table").write_bytes(b"\xff\xfe\x00conv1")
    with pytest.raises(InputError, match="no text"):
        read_thresholds(tmp_path / "table")
    with pytest.raises(InputError, match="cannot be read"):
        read_thresholds(tmp_path / "none")


def test_a_mode_that_there_is_not_is_refused_with_the_nearest(tmp_path):
    (tmp_path / "modes").write_text("conv1 INT9")
    with pytest.raises(InputError, match="no mode") as caught:
        read_modes(tmp_path / "modes")
    assert "'INT8'" in caught.value.hint


def test_a_table_of_another_model_is_refused():
    with pytest.raises(InputError, match="none of the 3 tensors"):
        require_known(TABLE, ["x", "y"])
    with pytest.raises(InputError, match=r"no tensor `a b:0/x`.*nor 1 others") as caught:
        require_known(TABLE, ["conv1", "a b/x"])
    assert "'a b/x'" in caught.value.hint
    require_known(TABLE, ["conv1", "a b:0/x", "größe", "more"])


def test_a_tensor_that_only_the_modes_name_is_looked_for_in_their_file():
    table = replace(TABLE, modes={"conv2": "F32"}, path="net.table", modes_path="net.qtable")
    with pytest.raises(InputError, match="no tensor `conv2`") as caught:
        require_known(table, list(TABLE.thresholds))
    assert caught.value.file == "net.qtable"


def test_a_table_of_tpu_mlir_is_read(tmp_path):
    """As its run_calibration writes it; what follows on 4 bits repeats the names."""
    path = tmp_path / "cali_table"
    path.write_text(
        "# generated time: 2022-08-11 10:00:59.743675\n# histogram number: 2048\n"
        "# sample number: 100\n# tune number: 5\n###\n"
        "# op_name    threshold    min    max\n"
        "images 1.0000080 0.0000000 1.0000080\n"
        "122_Conv 56.4281803 -102.5830231 97.6811752\n"
        "\n#int4_th\n122_Conv  40.0  -102.5830231  97.6811752\n"
    )
    table = read_thresholds(path)
    assert list(table.thresholds) == ["images", "122_Conv"] and not table.model
    assert table.thresholds["122_Conv"].represented == (-56.4281803, 56.4281803)


@pytest.mark.parametrize(
    "section", ["#asym_op\n122_Conv", "#weight_scale_fp8\n122_Conv_weight 2 0.1 0.2",
                "#int4_op\n122_Conv", "#tpu-mlir-fp8\n122_Conv 448 -448 448"]
)  # fmt: skip
def test_sections_of_tpu_mlir_that_are_no_thresholds_end_the_table(tmp_path, section):
    """Those that its pass `import-calibration-table` knows."""
    path = tmp_path / "cali_table"
    path.write_text(f"122_Conv 2.5 -2.25 2.5\n{section}\n")
    assert list(read_thresholds(path).thresholds) == ["122_Conv"]


@pytest.mark.parametrize(("scale", "names_outliers"), [(1e4, False), (1e-4, True)])
def test_a_range_that_an_outlier_made_is_refused_with_both_ways_out(scale, names_outliers):
    table = ThresholdTable({"x": Threshold("x", 3.0, -3.0, 3.0)})
    with pytest.raises(InputError, match="scale the inputs") as refused:
        require_scale(table, {"x": np.float32([-2, 2.5]) * np.float32(scale)})
    assert ("outliers" in str(refused.value)) == names_outliers


def test_weights_of_four_bits_are_a_line_and_part_of_the_digest(tmp_path):
    path, narrow = tmp_path / "table", replace(TABLE, weight_bits=4)
    write_thresholds(path, narrow)
    assert "# weight-bits 4\n" in path.read_text(encoding="utf-8")
    found = read_thresholds(path)
    assert found.weight_bits == 4 and found.digest == narrow.digest != TABLE.digest
    write_thresholds(path, TABLE)
    assert "weight-bits" not in path.read_text(encoding="utf-8")
    assert read_thresholds(path).weight_bits == 8
    path.write_text("# weight-bits 5\nconv1 1 -1 1\n", encoding="utf-8")
    with pytest.raises(InputError, match="weight-bits 5` is no width of weights"):
        read_thresholds(path)
