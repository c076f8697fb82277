"""The operators of sound are those of TFLite Micro, bit by bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from flatbuffers import flexbuffers

import explorer as ex
from explorer.errors import UnsupportedError
from explorer.importers.model import SourceModel
from explorer.importers.tflite.file.reading import read
from explorer.references.interface import reference_of
from verification.conformance.tflite.models import TYPES, OperatorOf, TensorOf, model_of

pytest.importorskip("tflite_micro", reason="TFLite Micro judges here: the extra tflite")


def plain(name: str, shape: Sequence[int], dtype: str, data: np.ndarray | None = None) -> TensorOf:
    return TensorOf(name=name, shape=shape, element_type=dtype, data=data)


def signal(
    kind: str, tensors: Sequence[TensorOf], results: int, options: Mapping[str, object]
) -> SourceModel:
    """A model of one operator; tensors that hold nothing are inputs."""
    count = len(tensors) - results
    node = OperatorOf(
        kind=f"custom.Signal{kind}",
        inputs=range(count),
        outputs=range(count, len(tensors)),
        custom_options=bytes(flexbuffers.Dumps(dict(options))),
    )
    given = [place for place in range(count) if tensors[place].data is None]
    return read(memoryview(model_of(tensors, [node], given, node.outputs)), kind)


def assert_is_micro(model: SourceModel, inputs: dict[str, np.ndarray]) -> None:
    states = {state.input: state.initial for state in model.states}
    names = [value.name for value in model.outputs]
    expected = dict(reference_of(model).tensors(model, inputs | states, names))
    found = ex.interpret(model, inputs | states)
    assert set(expected) == set(names)
    for name, right in expected.items():
        np.testing.assert_array_equal(found[name], right)


def words(seed: int, *shape: int, most: int = 32767) -> np.ndarray:
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(np.int16)


def counts(seed: int, size: int, most: int, dtype: str) -> np.ndarray:
    """Numbers of every magnitude up to `most`."""
    generator = np.random.default_rng(seed)
    powers = generator.uniform(0, np.log2(float(most)), size)
    return np.floor(np.exp2(powers)).astype(dtype)


def test_a_window_shifts_and_saturates():
    data = words(1, 480)
    tensors = [
        plain("x", (1, 480), "int16"), plain("w", (480,), "int16", data),
        plain("y", (1, 480), "int16"),
    ]  # fmt: skip
    assert_is_micro(signal("Window", tensors, 1, {"shift": 12}), {"x": words(2, 1, 480)})


@pytest.mark.parametrize("most", [0, 1, 900, 32767])
def test_sound_is_lifted_as_far_as_16_bits_hold_it(most: int):
    tensors = [plain("x", (480,), "int16"), plain("y", (480,), "int16"), plain("b", (), "int32")]
    assert_is_micro(signal("FftAutoScale", tensors, 2, {}), {"x": words(3, 480, most=most)})


@pytest.mark.parametrize(("size", "length"), [(480, 512), (100, 128), (8, 8), (4, 4)])
def test_the_fourier_transform_is_kiss_fft(size: int, length: int):
    tensors = [plain("x", (size,), "int16"), plain("y", (length + 2,), "int16")]
    model = signal("Rfft", tensors, 1, {"T": TYPES["int16"], "fft_length": length})
    assert_is_micro(model, {"x": words(4, size)})
    sound = np.sin(np.arange(size) * 0.7) * 32767  # of one frequency: sums are as large as can be
    assert_is_micro(model, {"x": sound.astype(np.int16)})


def test_energies_are_squared_magnitudes():
    tensors = [plain("x", (514,), "int16"), plain("y", (257,), "uint32")]
    model = signal("Energy", tensors, 1, {"start_index": 0, "end_index": 257})
    assert_is_micro(model, {"x": words(5, 514)})


def test_bands_share_their_energies_with_their_neighbours():
    bands, width, size = 6, 4, 40
    widths = np.full(bands + 1, width, np.int16)
    starts = (np.arange(bands + 1) * 5).astype(np.int16)
    weights = np.random.default_rng(6).integers(0, 4097, (bands + 1) * width).astype(np.int16)
    tensors = [
        plain("x", (size,), "uint32"),
        plain("w", weights.shape, "int16", weights),
        plain("u", weights.shape, "int16", (4096 - weights).astype(np.int16)),
        plain("f", starts.shape, "int16", starts),
        plain("p", starts.shape, "int16", (np.arange(bands + 1) * width).astype(np.int16)),
        plain("n", widths.shape, "int16", widths),
        plain("y", (bands,), "uint64"),
    ]
    model = signal("FilterBank", tensors, 1, {"num_channels": bands})
    assert_is_micro(model, {"x": counts(7, size, 2**31, "uint32")})


def test_roots_are_rounded():
    size = 400
    tensors = [
        plain("x", (size,), "uint64"), plain("b", (), "int32"), plain("y", (size,), "uint32"),
    ]  # fmt: skip
    numbers = counts(8, size, 2**48, "uint64")
    squares = np.arange(1, 101, dtype=np.uint64) ** np.uint64(2)
    numbers[:300:3], numbers[1:300:3] = squares, squares + np.arange(1, 101, dtype=np.uint64)
    numbers[300:306] = [0, 1, 2, 2**32 - 1, 2**32, 2**32 + 2**16]
    model = signal("FilterBankSquareRoot", tensors, 1, {})
    assert_is_micro(model, {"x": numbers, "b": np.array(3, np.int32)})


@pytest.mark.parametrize("clamping", [False, True])
def test_noise_is_subtracted_and_remembered(clamping: bool):
    size = 40
    tensors = [plain(name, (size,), "uint32") for name in ("x", "y", "noise")]
    options = {
        "num_channels": size, "smoothing": 409, "one_minus_smoothing": 15975,
        "alternate_smoothing": 983, "alternate_one_minus_smoothing": 15401, "smoothing_bits": 10,
        "spectral_subtraction_bits": 14, "min_signal_remaining": 819, "clamping": clamping,
    }  # fmt: skip
    model = signal("FilterBankSpectralSubtraction", tensors, 2, options)
    (state,) = model.states
    assert state.output == f"{state.input}:next" and not state.initial.any()
    assert_is_micro(model, {"x": counts(9, size, 2**30, "uint32")})


def test_a_gain_is_a_polynomial_for_each_power_of_two():
    size = 300
    table = np.random.default_rng(10).integers(0, 4000, 125).astype(np.int16)
    tensors = [
        plain("x", (size,), "uint32"), plain("noise", (size,), "uint32"),
        plain("table", (125,), "int16", table), plain("y", (size,), "uint32"),
    ]  # fmt: skip
    inputs = {n: counts(k, size, 2**31, "uint32") for k, n in enumerate(("x", "noise"))}
    inputs["noise"][:4] = range(4)
    assert_is_micro(signal("PCAN", tensors, 1, {"snr_shift": 6}), inputs)


def test_logarithms_come_from_a_table():
    tensors = [plain("x", (400,), "uint32"), plain("y", (400,), "int16")]
    options = {"input_correction_bits": 3, "output_scale": 64}
    numbers = counts(11, 400, 2**32 - 1, "uint32")
    numbers[:4] = range(4)
    assert_is_micro(signal("FilterBankLog", tensors, 1, options), {"x": numbers})


def test_a_transform_of_another_length_is_refused_by_name():
    tensors = [plain("x", (90,), "int16"), plain("y", (92,), "int16")]
    model = signal("Rfft", tensors, 1, {"T": TYPES["int16"], "fft_length": 90})
    with pytest.raises(UnsupportedError, match="no power of two"):
        ex.interpret(model, {"x": words(12, 90)})
