"""Searching a schedule for every kernel of a model, within a budget.

    result = tune(compilation, budget=24, seed=0)
    result["conv_1"].why                   "tuned: 41.2 µs against 48.0"
    compilation.fork(schedule=result.schedule)

For each kernel, those that take longest first: the default is measured, then candidates in small
batches. A batch is compiled in parallel and measured one by one, in turns with the default; its
numbers are compared with the default's first. What looks best at the end is measured once more,
longer, and is kept only where it wins beyond noise: a tuned schedule is never slower than none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from explorer.calling import named_arguments, refuse
from explorer.compilation.compilation import Compilation
from explorer.compilation.settings.tuned import tuned_store
from explorer.errors import InputError
from explorer.logs import logger
from explorer.results import Candidate, KernelSearch, SearchResult
from explorer.results.names import near_name
from explorer.runtime.cache.tuned import TunedEntry, TunedStore
from explorer.tuning.building import BuiltLibrary, build_all
from explorer.tuning.journal import FOLDER, Journal
from explorer.tuning.measuring import ROUNDS, Bench, Measurement
from explorer.tuning.proposals import Proposal, Proposals
from explorer.tuning.workloads import Workload, workloads_of

LOG = logger(__name__)

BATCH = 4
"""Candidates that are proposed, compiled and measured together."""
CONFIRMING_ROUNDS = 21
MAX_CONFIRMED = 3
"""Candidates that are measured a second time, the fastest first, until one stays faster."""
MIN_GAIN = 0.02
"""A candidate that is not faster by this much does not replace the default."""

Progress = Callable[[str, int, int], None]
"""Called before every candidate with the kernel's name, the candidate's number and the most."""
Told = Callable[[KernelSearch], None]
"""Called whenever more is known, with all that is known of the kernel that is searched."""


@dataclass(frozen=True)
class Budget:
    """What a search may take."""

    candidates: int = 24
    """Of each kernel, the default included."""
    seconds: float = 300.0
    """Of all kernels together; what was begun is finished."""

    def __post_init__(self) -> None:
        if self.candidates < 1 or not self.seconds > 0:
            raise InputError(
                f"a budget of {self.candidates} candidates and {self.seconds:g} s",
                hint="at least one candidate, and some seconds",
            )


@named_arguments
def tune(
    compilation: Compilation,
    budget: Budget | int | None = None,
    *,
    seed: int = 0,
    kernels: Sequence[str] | None = None,
    jobs: int | None = None,
    backend: str | None = "loky",
    threads: int = 1,
    keep: bool = True,
    resume: bool = True,
    progress: Progress | None = None,
    told: Told | None = None,
) -> SearchResult:
    """Searches faster schedules for a compilation's kernels, by measuring; keeps what it finds.

    budget: candidates of each kernel (24 by default), or a `Budget` with seconds. seed: the same
    seed and the same measurements give the same candidates. kernels: only these. jobs, backend: how
    joblib compiles candidates (None: as `joblib.parallel_config` says). threads: what is tuned for.
    keep: whether later compilations use what was found. resume: whether a search continues where
    an earlier one of the same seed ended. progress: called before every candidate with the kernel's
    name, the candidate's number and the maximum. told: called with what is known of a kernel,
    whenever that is more.

    Raises InputError for a kernel that there is not.
    """
    begin = time.monotonic()
    if not isinstance(compilation, Compilation):
        refuse("compilation", compilation, "a compilation", "ex.compile(...) makes one")
    allowed = _allowed(budget)
    workloads = _chosen(workloads_of(compilation, threads), kernels)
    store = tuned_store()
    found = []
    for workload in workloads:
        left = allowed.seconds - (time.monotonic() - begin)
        if left <= 0:
            break
        search = KernelSearcher(workload, seed, threads, jobs, backend, progress, told)
        found.append(search.run(allowed.candidates, left, resume))
        compilation.remember(found[-1])
        if keep:
            keep_best(store, workload, found[-1])
    return SearchResult(
        model=compilation.model.name,
        target=compilation.target.name,
        device=workloads[0].key.device if workloads else "",
        threads=threads,
        seed=seed,
        kernels=tuple(found),
        seconds=time.monotonic() - begin,
        kept_in=str(store.folder) if keep and store.folder else "",
    )


def _allowed(budget: Budget | int | None) -> Budget:
    if budget is None or isinstance(budget, Budget):
        return budget or Budget()
    if not isinstance(budget, int):
        refuse("budget", budget, "a number of candidates or a Budget", "ex.tune(c, 24)")
    return Budget(budget)


def _chosen(workloads: list[Workload], names: Sequence[str] | None) -> list[Workload]:
    if names is None:
        return workloads
    if isinstance(names, str):
        raise InputError(f"kernels is a list of names, not {names!r}", hint=f"[{names!r}]")
    by_name = {workload.kernel: workload for workload in workloads}
    for name in names:
        if name not in by_name:
            raise InputError(f"there is no kernel {name!r}", hint=near_name(name, by_name))
    return [by_name[name] for name in dict.fromkeys(names)]


def keep_best(store: TunedStore, workload: Workload, search: KernelSearch) -> None:
    """Keeps what won; what was kept before goes where the default did."""
    if search.chosen in (-1, search.default):
        if search.default >= 0:
            store.forget(workload.key)
        return
    best = search.candidates[search.chosen]
    store.keep(
        TunedEntry(
            key=workload.key,
            kernel=workload.kernel,
            choices=best.choices,
            tuned_us=best.confirmed_us,
            default_us=best.confirmed_default_us,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
    )


class KernelSearcher:
    """The search of one kernel."""

    def __init__(
        self,
        workload: Workload,
        seed: int,
        threads: int,
        jobs: int | None,
        backend: str | None,
        progress: Progress | None = None,
        told: Told | None = None,
    ):
        self.told = told
        self._begin = time.monotonic()
        self.workload = workload
        self.seed = seed
        self.threads = threads
        self.jobs = jobs
        self.backend = backend
        self.progress = progress
        self.proposals = Proposals(workload, seed)
        self.proposed: list[Proposal] = []
        self.results: list[Candidate] = []
        folder = tuned_store().folder
        self.journal = Journal(None if folder is None else folder / FOLDER, workload.key, seed)

    def run(self, most: int, seconds: float, resume: bool = True) -> KernelSearch:
        """Up to `most` candidates, or as many as are begun within the seconds."""
        self._begin = time.monotonic()
        if resume:
            self.journal.read()
        self.journal.begin()
        with Bench(self.workload, self.seed, self.threads) as bench:
            chosen, why = self._search(bench, most, self._begin + seconds)
        took = time.monotonic() - self._begin
        LOG.info(
            "%s: %d candidates in %.1f s, %s", self.workload.kernel, len(self.results), took, why
        )
        return self._found(chosen, why)

    def _found(self, chosen: int, why: str) -> KernelSearch:
        """What is known so far."""
        return KernelSearch(
            kernel=self.workload.kernel,
            workload=self.workload.key.workload,
            target=self.workload.key.target,
            device=self.workload.key.device,
            seed=self.seed,
            default=0 if self.results[0].status == "measured" else -1,
            chosen=chosen,
            candidates=tuple(self.results),
            seconds=time.monotonic() - self._begin,
            launches=self.workload.launches,
            threads=self.threads,
            why=why,
        )

    def _search(self, bench: Bench, most: int, end: float) -> tuple[int, str]:
        default = self.proposals.default()
        self._tell(0, most)
        known = self._known(0, default)
        if known is not None:  # it is built again when something is to be measured against it
            self.proposed.append(default)
            self.results.append(known)
        else:
            self._record(default, self._open(bench), 0)
        if self.results[0].status != "measured":
            return -1, f"the default could not be measured: {self.results[0].reason}"
        if known is not None and (whole := self._whole(most)):
            self.results = whole
        while len(self.results) < most and time.monotonic() < end:
            batch = self.proposals.next(self.results, min(BATCH, most - len(self.results)))
            if not batch:
                break
            self._try(bench, batch, most, end)
        return self._choose(bench)

    def _whole(self, most: int) -> list[Candidate]:
        """All candidates, where the journal has them and the choice too: nothing is tried again."""
        found = [self.journal.known.get(number) for number in range(most)]
        whole = [one for one in found if one is not None and one.status != "failed"]
        if len(whole) < most:
            return []
        best = _to_confirm(whole)
        return whole if best is None or best in self.journal.confirmed else []

    def _open(self, bench: Bench) -> Measurement:
        default = self.proposals.default()
        return bench.try_default(default.kernel, self._build(bench, [default])[0])

    def _measure(
        self, bench: Bench, proposal: Proposal, library: BuiltLibrary | None, rounds: int = ROUNDS
    ) -> Measurement:
        if not bench.is_open:
            opened = self._open(bench)
            if opened.status != "measured":
                return replace(opened, reason=f"the default failed this time: {opened.reason}")
        return bench.measure(proposal.kernel, library, rounds)

    def _try(self, bench: Bench, batch: list[Proposal], most: int, end: float) -> None:
        """Compiles what is not known yet, all at once, and measures it one after the other."""
        first = len(self.results)
        known = [self._known(first + k, proposal) for k, proposal in enumerate(batch)]
        new = [proposal for proposal, found in zip(batch, known, strict=True) if found is None]
        built = iter(self._build(bench, new))
        for proposal, found in zip(batch, known, strict=True):
            number = len(self.results)
            self._tell(number, most)
            if found is not None:
                self.proposed.append(proposal)
                self.results.append(found)
                continue
            library = next(built)
            if time.monotonic() > end:
                self._record(proposal, Measurement(status="not measured", reason="out of time"))
            else:
                self._record(proposal, self._measure(bench, proposal, library), number)

    def _known(self, number: int, proposal: Proposal) -> Candidate | None:
        """What the journal has of a candidate, if it is this one."""
        found = self.journal.known.get(number)
        if found is None or found.choices != proposal.choices:
            return None
        return None if found.status == "failed" else found  # the cause may be gone

    def _build(self, bench: Bench, batch: list[Proposal]) -> Sequence[BuiltLibrary | None]:
        """Libraries, of a backend that builds some; others build where they measure."""
        if not self.workload.backend.builds_libraries:
            return [None] * len(batch)
        sources = [bench.source(proposal.kernel) for proposal in batch]
        return build_all(sources, self.jobs if len(sources) > 1 else 1, self._backend(sources))

    def _backend(self, sources: list[str]) -> str | None:
        """One alone is compiled right here."""
        return self.backend if len(sources) > 1 else "threading"

    def _record(self, proposal: Proposal, measured: Measurement, number: int | None = None) -> None:
        """The result of a candidate; kept in the journal where it has a number."""
        candidate = Candidate(
            choices=proposal.choices,
            predicted_us=proposal.predicted_us,
            measured_us=measured.microseconds,
            spread_us=measured.spread_us,
            status=measured.status,
            reason=measured.reason,
            default_us=measured.default_us,
            origin=proposal.origin,
        )
        self.proposed.append(proposal)
        self.results.append(candidate)
        if number is not None:
            self.journal.add(number, candidate)

    def _choose(self, bench: Bench) -> tuple[int, str]:
        """The fastest, measured again: the default stays where that is not clearly faster."""
        refused = ""
        while (best := _to_confirm(self.results)) is not None:
            if best in self.journal.confirmed or self._confirm(bench, best):
                found = self.results[best]
                times = f"{found.confirmed_us:.1f} µs against {found.confirmed_default_us:.1f}"
                return best, f"tuned: {times}"
            refused = f"; {best} {self.results[best].reason}"
        tried = sum(candidate.status == "measured" for candidate in self.results) - 1
        return 0, f"the default: none of {tried} others was faster by {MIN_GAIN:.0%}{refused}"

    def _confirm(self, bench: Bench, number: int) -> bool:
        """Whether a candidate is still faster in more rounds, by more than the noise in them.

        The fastest of many measurements is also the luckiest one. So the second time stands
        beside the first and not in its place: the candidates stay comparable with one another.
        """
        proposal, before = self.proposed[number], self.results[number]
        library = self._build(bench, [proposal])[0]
        again = self._measure(bench, proposal, library, CONFIRMING_ROUNDS)
        if again.status != "measured":
            self._replace(number, replace(before, status=again.status, reason=again.reason))
            return False
        margin = max(MIN_GAIN, again.noise)
        candidate = replace(
            before, confirmed_us=again.microseconds, confirmed_default_us=again.default_us
        )
        is_faster = again.ratio < 1 - margin and candidate.confirmed_ratio < 1 - MIN_GAIN
        if not is_faster:
            reason = f"took {again.ratio:.3f} of the default's time when it was measured again"
            candidate = replace(candidate, reason=f"{reason}, with {margin:.1%} of noise")
        self._replace(number, candidate, is_confirmed=is_faster)
        return is_faster

    def _replace(self, number: int, candidate: Candidate, is_confirmed: bool = False) -> None:
        self.results[number] = candidate
        self.journal.add(number, candidate, is_confirmed)

    def _tell(self, number: int, most: int) -> None:
        if self.told is not None and self.results:
            fastest = min(
                (n for n, c in enumerate(self.results) if c.status == "measured"),
                key=lambda n: (self.results[n].ratio, n),
                default=-1,
            )
            self.told(self._found(fastest, "the search goes on"))
        if self.progress is not None:
            self.progress(self.workload.kernel, number, most)


def _to_confirm(results: Sequence[Candidate]) -> int | None:
    """The fastest candidate that no second measurement refused; None if the default stays.

    It stays where none is faster, and where `MAX_CONFIRMED` that looked faster still were refused.
    """
    faster = [number for number, one in enumerate(results) if number and _is_faster(one)]
    best = min(faster, key=lambda number: (results[number].ratio, number), default=None)
    if best is None:
        return None
    refused = [one for one in results if one.confirmed_us and one.reason]
    tried = sum(one.ratio <= results[best].ratio for one in refused)
    return best if tried < MAX_CONFIRMED else None


def _is_faster(candidate: Candidate) -> bool:
    """Measured, faster, and not refused by a second measurement."""
    is_measured = candidate.status == "measured" and not candidate.reason
    return is_measured and candidate.ratio < 1 - MIN_GAIN
