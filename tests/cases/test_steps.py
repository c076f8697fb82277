"""Steps from data to a model's inputs: what a spectrum keeps, and what a lower rate leaves out."""

import numpy as np
import pytest

from explorer.cases.steps import halve_rate, istft, join_frames, stft


@pytest.mark.parametrize(("length", "size", "hop"), [(64, 16, 4), (64, 16, 8), (100, 20, 5)])
def test_a_sound_comes_back_from_its_spectrum(length: int, size: int, hop: int):
    sound = np.random.default_rng(length).normal(size=length).astype(np.float32)
    spectrum = stft(sound, size, hop)
    assert spectrum.shape == (1 + length // hop, size // 2 + 1, 2)
    np.testing.assert_allclose(istft(spectrum, size, hop).reshape(-1), sound, atol=1e-5)


def test_a_frame_is_the_transform_of_its_window():
    """Frames are centered; the window is the root of Hann's, half a period of a sine."""
    sound = np.random.default_rng(1).normal(size=64).astype(np.float32)
    window = np.sin(np.pi * np.arange(16) / 16)
    expected = np.fft.rfft(sound[16:32].astype(np.float64) * window)
    frame = stft(sound, 16, 8)[3]
    np.testing.assert_allclose(frame[:, 0] + 1j * frame[:, 1], expected, atol=1e-5)


@pytest.mark.parametrize(("cycles", "share"), [(0, 1.0), (0.05, 1.0), (0.45, 0.0)])
def test_half_of_the_rate_keeps_low_tones_alone(cycles: float, share: float):
    sound = np.cos(2 * np.pi * cycles * np.arange(1024)).astype(np.float32)
    halved = halve_rate(sound)
    assert halved.shape == (512,) and halved.dtype == np.float32
    np.testing.assert_allclose(halved[70:-70], share * sound[::2][70:-70], atol=5e-3)


def test_windows_are_joined_without_their_ends():
    windows = np.arange(12.0).reshape(2, 6)
    assert join_frames(windows, 1, 7).tolist() == [1, 2, 3, 4, 7, 8, 9]
