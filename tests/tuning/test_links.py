"""What a measured transfer says of a link: its latency, and its bytes in a second."""

from types import SimpleNamespace
from typing import Any

import pytest

from explorer.errors import UnsupportedError
from explorer.targets import load_target
from explorer.tuning import links


def test_seconds_of_a_small_and_of_a_large_call_are_latency_and_rate(
    monkeypatch: pytest.MonkeyPatch,
):
    """A call moves its tensor there and its result back, at 2 GB in a second after 3 us."""
    device: Any = SimpleNamespace(device=lambda: "GPU")
    monkeypatch.setattr(links, "backend_of", lambda target: device)

    def measured(target: object, count: int) -> tuple[float, float]:
        return 2 * (3e-6 + 4 * count / 2e9), 7e-6

    monkeypatch.setattr(links, "_measured", measured)
    found = links.measure_link(load_target("opencl"))
    assert found.bytes_per_second == pytest.approx(2e9)
    assert found.latency_seconds == pytest.approx(3e-6 + 4 * links.SMALL / 2e9)
    assert found.launch_seconds == 7e-6


def test_a_target_without_memory_of_its_own_has_no_link():
    with pytest.raises(UnsupportedError, match="its own memory"):
        links.measure_link(load_target("tiny-8"))
