"""The search: what it proposes, what it may choose, and how it goes on after it was killed.

Times are invented here, a function of the choices: what is measured is tested beside this.
"""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

import explorer
from explorer.compilation import Compilation
from explorer.compilation.settings.tuned import tuned_store
from explorer.errors import CacheWarning, InputError
from explorer.kernels.loops.nest import ScheduleError
from explorer.kernels.schedules import ScheduledKernel
from explorer.results import SearchResult
from explorer.results.encoding import from_json, to_json
from explorer.targets import load_target
from explorer.tuning import proposals
from explorer.tuning import search as searching
from explorer.tuning.building import BuiltLibrary
from explorer.tuning.journal import Journal
from explorer.tuning.measuring import Measurement
from explorer.tuning.search import Budget, tune
from explorer.tuning.workloads import Workload, workloads_of

MODEL = Path(__file__).parents[2] / "sample_models" / "digits_cnn.onnx"
KERNEL = "conv_3x3_1"
"""The first layer: few choices that are quickly scheduled."""
DEFAULT_US = 50.0


@pytest.fixture(scope="module")
def compiled() -> Compilation:
    return explorer.compile(MODEL, load_target("cpu", {"vector_floats": 16}), tuned=False)


class InventedBench:
    """Measures by a formula: the fewer pixels, the faster, the best at 4."""

    measured: ClassVar[list[dict]] = []
    verdicts: ClassVar[dict[int, Measurement]] = {}
    dies_at: ClassVar[int] = -1
    noise: ClassVar[float] = 0.0
    again: ClassVar[float] = 1.0
    """How many times as long the second measurement takes."""

    def __init__(self, workload, seed: int = 0, threads: int = 1):
        self.is_open = False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def source(self, kernel) -> str:
        return ""

    def try_default(self, kernel, library) -> Measurement:
        self.is_open = True
        return Measurement(DEFAULT_US, 0.1, DEFAULT_US, 1.0)

    def measure(self, kernel, library, rounds: int = 7) -> Measurement:
        if len(self.measured) == self.dies_at:
            raise KeyboardInterrupt
        choices = dict(kernel.choices)
        self.measured.append(choices)
        pixels = choices.get("pixels", 8)
        if pixels in self.verdicts:
            return self.verdicts[pixels]
        microseconds = 30.0 + 4 * abs(pixels - 4) + choices.get("rows", 1) / 16
        microseconds *= self.again if rounds == searching.CONFIRMING_ROUNDS else 1
        ratio = microseconds / DEFAULT_US
        return Measurement(microseconds, 0.1, DEFAULT_US, ratio, self.noise)


@pytest.fixture(scope="module")
def scheduled() -> dict[tuple, ScheduledKernel | ScheduleError]:
    """What came of the choices that some search of this module asked for."""
    return {}


@pytest.fixture
def bench(monkeypatch, tmp_path, scheduled) -> type[InventedBench]:
    """The invented bench, a search without a compiler, and a cache of its own.

    The searches propose much the same: each schedule is made once, which is all that takes time.
    """
    schedule = Workload.schedule

    def schedule_once(workload, choices=None):
        key = (workload.kernel, *(choices or {}).items())
        if key not in scheduled:
            try:
                scheduled[key] = schedule(workload, choices)
            except ScheduleError as error:
                scheduled[key] = error
        made = scheduled[key]
        if isinstance(made, ScheduleError):
            raise made
        return made

    class Fresh(InventedBench):
        measured: ClassVar[list[dict]] = []
        verdicts: ClassVar[dict[int, Measurement]] = {}

    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "programs"))
    monkeypatch.setattr(Workload, "schedule", schedule_once)
    monkeypatch.setattr(searching, "Bench", Fresh)
    monkeypatch.setattr(proposals, "POOL", 6)  # of few schedules, so that relatives are left
    libraries = lambda sources, jobs, backend: [BuiltLibrary(b"") for _ in sources]  # noqa: E731
    monkeypatch.setattr(searching, "build_all", libraries)
    return Fresh


def run(compiled: Compilation, candidates: int = 12, **options) -> SearchResult:
    return tune(compiled, candidates, kernels=[KERNEL], **options)


def test_the_default_comes_first_and_nothing_is_tried_twice(compiled, bench):
    search = run(compiled, 12)[KERNEL]
    assert dict(search.candidates[0].choices) == compiled.schedule[KERNEL]
    assert search.candidates[0].origin == "default"
    assert len({c.choices for c in search.candidates}) == len(search.candidates) == 12
    origins = {c.origin.split()[0] for c in search.candidates}
    assert origins == {"default", "predicted", "mutation"}
    assert all(0 < c.predicted_us < math.inf for c in search.candidates)


def test_the_same_seed_tries_the_same_and_another_one_others(
    compiled, bench, monkeypatch, scheduled
):
    first = run(compiled, resume=False)
    scheduled.clear()
    again = run(compiled, resume=False)
    other = run(compiled, resume=False, seed=1)
    choices = [[c.choices for c in r[KERNEL].candidates] for r in (first, again, other)]
    assert choices[0] == choices[1]
    assert choices[0] != choices[2]


def test_what_is_measured_faster_is_chosen_kept_and_used(compiled, bench):
    result = run(compiled, 14)
    search = result[KERNEL]
    best = search.candidates[search.chosen]
    assert best.ratio == min(c.ratio for c in search.candidates)
    assert search.why == f"tuned: {best.confirmed_us:.1f} µs against 50.0"
    assert search.gain > 1.2
    assert result.schedule == {KERNEL: dict(best.choices)}
    assert result.kept_in

    used = explorer.compile(MODEL, compiled.target)
    assert used.schedule[KERNEL] == dict(best.choices)
    assert used.program == compiled.fork(schedule=result.schedule).program


def test_nothing_is_kept_where_it_is_not_asked_for(compiled, bench):
    assert not run(compiled, keep=False).kept_in
    assert tuned_store().files() == []


@pytest.mark.parametrize("status", ["failed", "wrong", "hung"])
def test_what_fails_is_recorded_with_its_reason_and_never_chosen(compiled, bench, status):
    broken = Measurement(status=status, reason="it was planted")
    bench.verdicts = dict.fromkeys(range(1, 8), broken)
    search = run(compiled, 14)[KERNEL]
    failed = [c for c in search.candidates if dict(c.choices).get("pixels", 8) < 8]
    assert failed
    assert all((c.status, c.reason) == (status, "it was planted") for c in failed)
    assert dict(search.candidates[search.chosen].choices).get("pixels", 8) == 8


def test_the_default_stays_where_nothing_is_faster_beyond_noise(compiled, bench):
    bench.noise = 0.7
    result = run(compiled, 14)
    search = result[KERNEL]
    assert search.chosen == search.default == 0
    assert search.why.startswith("the default: none of 13 others was faster by 2%")
    assert "with 70.0% of noise" in search.why
    assert tuned_store().entries() == []


def test_a_schedule_that_was_kept_goes_when_the_default_wins_later(compiled, bench):
    run(compiled, 14)
    assert len(tuned_store().entries()) == 1
    bench.noise = 0.7
    run(compiled, 14, resume=False)
    assert tuned_store().entries() == []


def test_a_killed_search_goes_on_where_it_was(compiled, bench):
    whole = run(compiled, 16, seed=5, keep=False)[KERNEL]
    times = len(bench.measured)
    for path in Path(tuned_store().folder or "").rglob("*.search"):
        path.unlink()

    bench.measured.clear()
    bench.dies_at = 7
    with pytest.raises(KeyboardInterrupt):
        run(compiled, 16, seed=5, keep=False)
    bench.dies_at = -1
    resumed = run(compiled, 16, seed=5, keep=False)[KERNEL]

    assert resumed.candidates == whole.candidates
    assert resumed.chosen == whole.chosen
    assert len(bench.measured) == times  # nothing was measured twice


def test_a_search_that_was_ended_in_the_middle_of_a_line_goes_on_before_it(compiled, bench):
    whole = run(compiled, 12, keep=False)[KERNEL]
    (path,) = Path(tuned_store().folder or "").rglob("*.search")
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b'"number": 9') + 40])
    bench.measured.clear()
    assert run(compiled, 12, keep=False)[KERNEL].candidates == whole.candidates
    assert 0 < len(bench.measured) <= 6


@pytest.mark.parametrize(
    "line", [b'{"number": Infinity}', b"[]", b"3", b"[" * 5000, b"\xff", b'{"number": 0}']
)
def test_a_damaged_line_ends_a_journal(tmp_path, line):
    key = SimpleNamespace(digest=lambda: "a" * 64)
    journal = Journal(tmp_path, key, 0)  # pyright: ignore[reportArgumentType]
    journal.begin()
    assert journal.path is not None
    journal.path.write_bytes(journal.path.read_bytes() + line + b"\n")
    journal.read()
    assert journal.known == {}


@pytest.mark.parametrize("content", [b"", b"{}\n", b"\xff\xfe\n", b"[[[[[\n", b'{"format": 1}\n{'])
def test_a_journal_that_cannot_be_read_is_begun_anew(compiled, bench, content):
    first = run(compiled, 6, keep=False)[KERNEL]
    (path,) = Path(tuned_store().folder or "").rglob("*.search")
    path.write_bytes(content)
    bench.measured.clear()
    assert run(compiled, 6, keep=False)[KERNEL].candidates == first.candidates
    assert len(bench.measured) >= 5


def test_a_journal_that_cannot_be_written_is_told_and_the_search_goes_on(compiled, bench, tmp_path):
    folder = tmp_path / "programs"
    folder.mkdir(mode=0o700)
    (folder / "searches").write_text("this is no folder")
    with pytest.warns(CacheWarning, match="are kept nowhere"):
        search = run(compiled, 4, keep=False)[KERNEL]
    assert len(search.candidates) == 4


def test_a_finished_search_is_only_read(compiled, bench, monkeypatch):
    """Schedules are not even proposed again, which takes seconds."""
    first = run(compiled, 12)
    bench.measured.clear()
    monkeypatch.delattr("explorer.tuning.proposals.Proposals.next")
    assert run(compiled, 12)[KERNEL].candidates == first[KERNEL].candidates
    assert bench.measured == []


def test_the_second_measurement_stands_beside_the_first_one(compiled, bench, monkeypatch):
    """The fastest of many was lucky: its second time is longer than the others' first ones."""
    monkeypatch.setattr(bench, "again", 1.2)
    search = run(compiled, 12)[KERNEL]
    best = search.candidates[search.chosen]
    assert best.confirmed_us == pytest.approx(1.2 * best.measured_us)
    assert search.why == f"tuned: {best.confirmed_us:.1f} µs against 50.0"
    assert search.gain == pytest.approx(50 / best.confirmed_us)
    assert min(c.ratio for c in search.candidates[1:]) == best.ratio < best.confirmed_ratio
    assert [c.confirmed_us > 0 for c in search.candidates].count(True) == 1
    (kept,) = tuned_store().entries()
    assert kept.tuned_us == best.confirmed_us

    bench.measured.clear()
    assert run(compiled, 12)[KERNEL].candidates == search.candidates
    assert bench.measured == []  # no other candidate is confirmed in a later call


def test_where_all_that_looked_faster_were_refused_a_later_call_measures_nothing(compiled, bench):
    bench.noise = 0.7
    first = run(compiled, 14)[KERNEL]
    refused = [c for c in first.candidates if c.confirmed_us]
    assert len(refused) == searching.MAX_CONFIRMED
    bench.measured.clear()
    again = run(compiled, 14)[KERNEL]
    assert (again.candidates, again.chosen) == (first.candidates, 0)
    assert bench.measured == []


def test_no_kernel_is_begun_after_the_seconds_are_over(compiled, bench):
    result = tune(compiled, Budget(4, 1e-9))
    assert result.kernels == ()
    with pytest.raises(InputError, match="a budget of 0 candidates"):
        tune(compiled, Budget(0, 1.0))


def test_the_slowest_kernels_come_first_and_unknown_names_are_refused(compiled, bench):
    names = [w.kernel for w in workloads_of(compiled)]
    assert set(names) == set(compiled.schedule)
    costs = [compiled.cost(name).microseconds for name in names]
    assert costs == sorted(costs, reverse=True)
    with pytest.raises(InputError, match="there is no kernel 'conv_3x3'"):
        tune(compiled, 2, kernels=["conv_3x3"])


def test_a_result_survives_json_and_becomes_a_table(compiled, bench):
    result = run(compiled, 6)
    assert from_json(SearchResult, to_json(result)) == result
    frame = result.to_frame()  # pyright: ignore[reportAttributeAccessIssue]
    assert list(frame["number"]) == list(range(6))
    assert list(frame["chosen"]).count(True) == 1


def test_progress_names_kernel_and_candidate(compiled, bench):
    told: list[tuple[str, int, int]] = []
    run(compiled, 5, progress=lambda *what: told.append(what))
    assert told == [(KERNEL, number, 5) for number in range(5)]
