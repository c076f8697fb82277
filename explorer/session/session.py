"""A session: programs by signature, made on demand, and a log of why each was made.

    strict         a call waits until its program is compiled
    lazy           a fallback answers until the same signature was seen `hot_after` times
    asynchronous   a fallback answers while a thread compiles

Where a finished program is kept for a signature (docs/program-cache.md), it is started in every
mode: that takes less than a fallback, and compiles nothing. The model's file is read only when
something has to be compiled, or a fallback answers.

A model whose inputs change shape all the time would compile all the time. After `most_programs`
compilations with fewer than `calls_per_program` calls each, new signatures are left to the
fallback (as XLA's auto-clustering gives megamorphic clusters up; Google, tensorflow/compiler/jit/
device_compilation_profiler.cc).
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args, overload

import numpy as np

from explorer.backends import backend_named
from explorer.backends.loading import load_saved
from explorer.calling import named_arguments, require_arrays
from explorer.closing import Closing
from explorer.errors import ExplorerError, InputError, RangeError, UnsupportedError
from explorer.logs import logger
from explorer.results import SessionCall, SessionProgram, SessionRecord
from explorer.results.displayed import Displayed
from explorer.results.runs.sessions import WeightsReport
from explorer.runtime.cache import ProgramCache
from explorer.runtime.cache.requests import sizes_of
from explorer.runtime.cache.saved_programs import NEVER, Startable
from explorer.runtime.native.affinity import check_affinity
from explorer.session.buckets import Buckets
from explorer.session.fallback import Fallback
from explorer.session.holding import Known, LoadedProgram
from explorer.session.inputs import Range, checked_inputs, says_sizes
from explorer.session.options import require_options
from explorer.session.pasts import GrowingPast, GrownForm, ranges_of
from explorer.session.signatures import Signature
from explorer.session.sizes import compiler_for_sizes
from explorer.session.source import ModelSource, cache_with
from explorer.session.specializing import Specializing

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from explorer.backends.interface import Backend
    from explorer.compilation.settings.options import CompileOptions
    from explorer.compilation.sharing_weights import SharedWeights
    from explorer.files import ModelPath
    from explorer.importers import SourceModel
    from explorer.targets.names import TargetName

LOG = logger(__name__)

OWN_OPTIONS = (
    "mode",
    "meanwhile",
    "ranges",
    "most_programs",
    "calls_per_program",
    "hot_after",
    "specialize_after",
    "threads",
    "affinity",
    "isolated",
    "programs",
    "cache",
)
"""Options of a session besides those of a compilation."""
Mode = Literal["strict", "lazy", "asynchronous"]
MODES: tuple[str, ...] = get_args(Mode)
Inputs = Mapping[str, np.ndarray]
MAKING = ("compiled", "started", "specialized")
"""Events of the first call of a program."""
MAX_FORMS = 1000
"""That are known by heart: the sizes of a bucket may be many."""
MAX_CALLS = 10_000
"""In the log; older ones are forgotten."""


class Session(Closing, Displayed):
    """Safe for threads; close it, or use it in a `with` statement."""

    @named_arguments
    def __init__(
        self,
        model: SourceModel | ModelPath,
        target: TargetName | str | Path = "cpu",
        *,
        mode: Mode = "strict",
        meanwhile: str = "reference",
        ranges: Mapping[str, Sequence[Range]] | None = None,
        most_programs: int = 10,
        calls_per_program: int = 4,
        hot_after: int = 2,
        specialize_after: int = 32,
        threads: int = 1,
        affinity: Sequence[int] = (),
        isolated: bool = True,
        programs: Path | None = None,
        cache: ProgramCache | None = None,
        **options: Unpack[CompileOptions],
    ) -> None:
        """Reads the model, unless a program of it is kept; compiles nothing before the first call.

        ranges: buckets of symbolic dimensions, `{"batch": [(1, 8), (9, 64)]}`: one program for
        all sizes of a bucket, where the kernels allow it; None: buckets follow from the calls
        (`buckets.py`), {}: there are none. For a size of which such a program answered
        `specialize_after` calls (0: never) a thread compiles one of its own. programs: a file
        that `explorer cache export` wrote. threads, affinity: of the processor, as in
        `Compilation.open`. isolated: programs run in processes of their own; without that a call
        costs some microseconds instead of a hundred, and a fault in a program ends this process.
        InputError for a mode that does not exist and for buckets that overlap.
        """
        require_options("Session", options, OWN_OPTIONS)
        if mode not in MODES:
            raise InputError(f"unknown mode {mode!r}", hint=f"one of {', '.join(MODES)}")
        self._cache = cache_with(cache, programs)
        self._source = ModelSource(model, target, options, self._cache)
        self.target = str(target)
        self.mode = mode
        self.most_programs = most_programs
        self.calls_per_program = calls_per_program
        self.hot_after = hot_after
        self.threads = threads
        self._isolated = isolated
        self._affinity = check_affinity(affinity)
        self._entries: deque[tuple[Any, ...]] = deque(maxlen=MAX_CALLS)  # the fields of SessionCall
        self._count = 0
        self._last_miss = ""
        self._options = options
        self._past = GrowingPast()
        self._weights: SharedWeights | None = None
        self._files: set[str] = set()
        """Digests of the weights of saved programs."""
        self._specializing = Specializing(specialize_after)
        self._grown: list[tuple[LoadedProgram, GrownForm]] = []
        self._fallback = Fallback(lambda: self.model, meanwhile, threads)
        self._lock = threading.RLock()
        self._programs: OrderedDict[Signature, LoadedProgram] = OrderedDict()
        self._known: dict[tuple[object, ...], Known] = {}
        self.inputs = self._source.interface.inputs
        """Names, element types and shapes, as the model declares them."""
        self._names = [value.name for value in self.inputs]
        self._pending: dict[Signature, Future[LoadedProgram]] = {}
        self._refused: dict[Signature, str] = {}
        self._buckets = Buckets(lambda: self.model, self.inputs, ranges)
        self._seen: Counter[Signature] = Counter()
        self._not_kept: dict[Signature, str] = {}
        """Why no finished program was there when a signature was first met."""
        self._compilations = 0
        self._pool: ThreadPoolExecutor | None = None
        self._is_closed = False

    @property
    def model(self) -> SourceModel:
        """The model, read when first asked for. ModelError where its file changed since."""
        return self._source.model

    @overload
    def __call__(self, inputs: Inputs, /) -> dict[str, np.ndarray]: ...

    @overload
    def __call__(self, *arrays: np.ndarray, **named: np.ndarray) -> dict[str, np.ndarray]: ...

    def __call__(self, *arrays: Any, **named: np.ndarray) -> dict[str, np.ndarray]:
        """Inputs in the model's order, or by name; one mapping also does."""
        if len(arrays) == 1 and isinstance(arrays[0], Mapping) and not named:
            return self.run(arrays[0])
        names = self._names
        if len(arrays) > len(names):
            raise InputError(
                f"{len(arrays)} inputs were given, the model takes {len(names)}",
                hint=f"they are {', '.join(names)}",
            )
        return self.run({**dict(zip(names, arrays, strict=False)), **named})

    def run(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """Outputs by name. InputError for inputs that the model cannot have."""
        started = time.perf_counter()
        if type(inputs) is not dict:
            require_arrays(inputs, self._names, "session.run")
        form = self._form(inputs)
        with self._lock:
            known = (
                None if self._pending else self._known.get(form) or self._known_past(form, inputs)
            )
            if known is not None:
                known.program.calls += 1
                self._programs.move_to_end(known.program.signature)
                if known.program.is_for_ranges and self._specializing.is_due(form):
                    self._specialize(inputs)
        if known is None:
            return self._run_unknown(inputs, form, started)
        outputs = known.program.executable.run(inputs)
        self._log(known.text, "program", "hit", "", started, 0.0)
        return outputs

    def _known_past(self, form: tuple[object, ...], inputs: Inputs) -> Known | None:
        """What a call meets that differs by the valid length of its past only."""
        if not form:
            return None
        for program, grown in self._grown:
            if grown.fits(form) and program.signature.has_full_masks(inputs):
                return Known(program, grown.text)
        return None

    def _run_unknown(
        self, inputs: Inputs, form: tuple[object, ...], started: float
    ) -> dict[str, np.ndarray]:
        """A call whose inputs have a form that has not been met, or has met no program."""
        with self._lock:
            if self._is_closed:
                raise InputError("the session was closed", hint="open another one")
            given = checked_inputs(lambda: self.model, self.inputs, inputs)
            self._collect()
            program = self._fitting(given)
            event, reason, waited = "hit", "", 0.0
            if program is None:
                reason = self._reason(given)
                program, event, waited, opened = self._decide(given)
                reason = self._explained(event, reason, self._plain(given))
                reason += f"; {opened}" if opened else ""
                for why in self._buckets.why_refused(given):
                    reason += f"; {why}"
                for why in self._past.why(given):
                    reason += f"; {why}"
            if program is not None and event == "hit":
                event, reason = self._first_of_specialized(program)
            if program is not None and event in MAKING:
                report = program.weights
                reason += f"; {report}" if report is not None and report.copied_bytes else ""
            text = str(self._plain(given))
            if program is not None:
                if program.is_for_ranges and self._specializing.is_due(form):
                    self._specialize(given)
                program.calls += 1
                self._programs.move_to_end(program.signature)
                if form and not (program.signature.contents or program.signature.full_masks):
                    if len(self._known) >= MAX_FORMS:
                        self._known.clear()
                    self._known[form] = Known(program, text)
        if program is not None:
            outputs, answered_by = program.executable.run(given), "program"
        else:
            outputs = self._fallback.run(given)
            answered_by = self._fallback.name
        self._log(text, answered_by, event, reason, started, waited)
        return outputs

    @property
    def calls(self) -> list[SessionCall]:
        """The last calls, `MAX_CALLS` of them at most."""
        return [SessionCall(*entry) for entry in self._entries]

    def why(self) -> str:
        """Why the last call that met no known program met none."""
        return self._last_miss or "every call met a program"

    @property
    def programs(self) -> tuple[LoadedProgram, ...]:
        """What is compiled, the last used last."""
        return tuple(self._programs.values())

    @property
    def is_cut_off(self) -> bool:
        """Whether new signatures are no longer compiled: there were too many of few calls each."""
        if self._compilations < self.most_programs:
            return False
        return self._count < self.calls_per_program * self._compilations

    def record(self) -> SessionRecord:
        """The log as data: what a notebook shows of a session."""
        with self._lock:
            programs = []
            for program in self._programs.values():
                found = program.lookup
                programs.append(
                    SessionProgram(
                        str(program.signature),
                        program.calls,
                        program.seconds,
                        *((found.tier, found.reason) if found else ()),
                    )
                )
            return SessionRecord(
                model=self._source.interface.name,
                target=self.target,
                mode=self.mode,
                calls=tuple(self.calls),
                programs=tuple(programs),
                is_cut_off=self.is_cut_off,
            )

    def wait(self) -> None:
        """Until all that is being compiled is there."""
        for future in list(self._pending.values()):
            future.exception()
        with self._lock:
            self._collect()

    def close(self) -> None:
        """Gives processes and devices back. What is being compiled is awaited."""
        with self._lock:
            self._is_closed = True
        self.wait()
        if self._pool is not None:
            self._pool.shutdown()
        self._fallback.close()
        with self._lock:
            for program in self._programs.values():
                program.close()
            self._programs.clear()
            self._known.clear()
            self._grown.clear()

    # -- deciding ----------------------------------------------------------------------------

    def _decide(self, given: Inputs) -> tuple[LoadedProgram | None, str, float, str]:
        """(program, event, seconds that were waited, sizes that are opened now) where no known
        program fits."""
        signature, opened = self._plain(given), ""
        self._seen[signature] += 1
        started = time.perf_counter()
        program = self._start(signature, given)
        if program is None:
            opened = self._buckets.open_changed(given, lambda: self._past.kept(self.model))
        if opened:
            signature = self._plain(given)
            program = self._start(signature, given)
        if program is not None:
            self._buckets.note(given)
            self._hold(program)
            return program, "started", time.perf_counter() - started, opened
        return *self._make(given, signature), opened

    def _make(self, given: Inputs, signature: Signature) -> tuple[LoadedProgram | None, str, float]:
        """(program, event, seconds that were waited) where no program is kept, by the mode."""
        if signature in self._refused:
            return None, "refused", 0.0
        started = time.perf_counter()
        if self.is_cut_off:
            return None, "cut off", 0.0
        if self.mode == "strict":
            program = self._compile(given)
            self._keep(program)
            event = "started" if program.compilation is None else "compiled"
            return program, event, time.perf_counter() - started
        if self.mode == "lazy":
            if self._seen[signature] < self.hot_after:
                return None, "not hot", 0.0
            try:
                program = self._compile(given)
            except ExplorerError as error:
                self._refused[signature] = str(error)
                return None, "refused", 0.0
            self._keep(program)
            return program, "compiled", time.perf_counter() - started
        if signature not in self._pending:
            self._pending[signature] = self._thread().submit(self._compile, given)
        return None, "compiling", 0.0

    def _thread(self) -> ThreadPoolExecutor:
        """That compiles while calls are answered."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(1, thread_name_prefix="explorer-session")
        return self._pool

    def _specialize(self, given: Inputs) -> None:
        """Compiles for the sizes of a call alone, in the thread."""
        signature = Signature.of(given, ())
        if not self._is_closed and self._specializing.begin(signature):
            arrays = {name: np.array(array) for name, array in given.items()}
            self._pending[signature] = self._thread().submit(self._compile, arrays, False)

    def _first_of_specialized(self, program: LoadedProgram) -> tuple[str, str]:
        """Event and reason of a call that a program answers which is there already."""
        reason = self._specializing.reasons.get(program.signature, "")
        return ("specialized", reason) if reason and not program.calls else ("hit", "")

    def _collect(self) -> None:
        """Takes over what the thread has finished."""
        for signature, future in list(self._pending.items()):
            if not future.done():
                continue
            del self._pending[signature]
            error = future.exception()
            if error is None:
                self._keep(future.result())
            elif isinstance(error, ExplorerError):
                self._refused[signature] = str(error)
            else:
                raise error

    def _keep(self, program: LoadedProgram) -> None:
        self._compilations += 1
        self._hold(program)
        if program.signature in self._specializing.reasons:
            self._known = {f: k for f, k in self._known.items() if not k.program.is_for_ranges}

    def _hold(self, program: LoadedProgram) -> None:
        self._programs[program.signature] = program
        if program.executable.program.length is not None and not program.signature.contents:
            self._grown.append((program, GrownForm.of(program.signature, self._names)))
        while len(self._programs) > self.most_programs:
            _, oldest = self._programs.popitem(last=False)
            self._known = {f: k for f, k in self._known.items() if k.program is not oldest}
            self._grown = [entry for entry in self._grown if entry[0] is not oldest]
            self._not_kept.pop(oldest.signature, None)  # by now it may be
            oldest.close()

    def _start(self, signature: Signature, given: Inputs) -> LoadedProgram | None:
        """The finished program that is kept for a signature, which is looked for once."""
        request = self._source.request
        if request is None or signature in self._not_kept or signature in self._pending:
            return None
        started = time.perf_counter()
        dimensions, ranges = self._buckets.dimensions(given)
        sizes = sizes_of(self._source.interface, dimensions)
        if sizes is None:
            return None
        found = self._source.kept.find(request, sizes, given)
        if not isinstance(found, Startable):
            self._not_kept[signature] = found.reason
            return None
        found, report = self._with_weights(found)
        threads = self._threads_of(backend_named(found.kept.language))
        how = (threads, self._isolated, self._affinity)
        compile_for = compiler_for_sizes(
            self._source, self.target, dimensions, self._options, self._cache, *how
        )
        executable = load_saved(found, self._cache, *how, compile_for)
        names = [fixed.name for fixed in found.kept.contents]
        return LoadedProgram(
            Signature.of(given, names, ranges),
            None,
            executable,
            time.perf_counter() - started,
            next(reversed(self._cache.looked), None) if found.kept.binaries else None,
            weights=report,
        )

    def _with_weights(self, found: Startable) -> tuple[Startable, WeightsReport | None]:
        """A saved program with weights where those of earlier programs lie, if they do; and what
        of them is there twice."""
        if self._weights is not None:
            return self._weights.adopt(found)
        digest, size = found.kept.weights, found.block.nbytes
        is_first, is_same = not self._files, digest in self._files
        self._files.add(digest)
        if is_first:
            return found, None
        own = WeightsReport(copied_bytes=size, reasons=("they are in a file of their own",))
        return found, WeightsReport(shared_bytes=size) if is_same else own

    def _compile(self, given: Inputs, has_ranges: bool = True) -> LoadedProgram:
        """A program for inputs; without ranges for their sizes alone."""
        from explorer.compilation import compile_model
        from explorer.compilation.saving_programs import keep
        from explorer.compilation.sharing_weights import SharedWeights
        from explorer.ir.evaluation import entry_function, specialized_inputs
        from explorer.runtime.native.weight_block import WeightBlock

        started = time.perf_counter()
        source = replace(self.model, assumed=self._assumed(given))
        dimensions, ranges = self._buckets.dimensions(given, has_ranges)
        capacity = None
        if "capacity" not in self._options and not ranges and has_ranges:
            capacity = self._past.capacity(self.model, given)
            if capacity is not None:
                capacity = self._past.fitting(source, given, capacity)
        options = self._past.options(self.model, given, self._options, capacity)
        try:
            if capacity is not None:
                dimensions = self._past.sizes(self.model, dimensions)
            compilation = compile_model(source, self.target, dimensions=dimensions, **options)
        except RangeError as error:
            self._buckets.refuse(dimensions, error.message)
            return self._start(self._plain(given), given) or self._compile(given)
        except (InputError, UnsupportedError) as error:
            if capacity is not None:
                self._past.refused = error.message
                growing = self._past.dimensions(self.model)
                self._past.opened = self._buckets.open_growing(given, growing, capacity)
                return self._compile(given)
            if not ranges or not self._buckets.follows_calls:
                raise
            if isinstance(error, UnsupportedError) or not self._buckets.narrow(given):
                self._buckets.refuse(dimensions, error.message)
            return self._compile(given)
        if self._weights is None:
            self._weights = SharedWeights(WeightBlock(is_file=self._isolated))
        compilation, report = self._weights.build(compilation)
        entry = entry_function(compilation.passes[0].after.program)
        length = compilation.program.length
        ranges |= ranges_of(length)
        masks = () if length is None else length.full_masks
        signature = Signature.of(given, specialized_inputs(entry), ranges, masks)
        executable = compilation.open(
            self._threads_of(compilation.backend),
            self._isolated,
            affinity=self._affinity,
            cache=self._cache,
        )
        seconds = time.perf_counter() - started
        LOG.info("compiled %s in %.2f s", signature, seconds)
        lookup = next(reversed(compilation.lookups), None)
        if self._source.request is not None and capacity is None:
            keep(compilation, self._source.request, self._cache, given, seconds)
        return LoadedProgram(signature, compilation, executable, seconds, lookup, weights=report)

    def _threads_of(self, backend: Backend) -> int | None:
        """A session's threads are of the processor: a driver has its own."""
        return self.threads if backend.owns_threads else None

    def _assumed(self, given: Inputs) -> dict[str, np.ndarray]:
        """Contents that a program may be made for: without parts on the host all, and with these
        sizes and conditions only, which come again where data do not."""
        if not self._options.get("host", True):
            return dict(given)
        return {name: array for name, array in given.items() if says_sizes(array)}

    def _fitting(self, given: Inputs) -> LoadedProgram | None:
        """A program that is right for the inputs: rather one for their sizes than for all."""
        found = [p for p in self._programs.values() if p.signature.fits(given)]
        return min(found, key=lambda program: program.is_for_ranges, default=None)

    def _plain(self, given: Inputs) -> Signature:
        """What a program for these inputs would be made for, as far as it is known beforehand."""
        _, ranges = self._buckets.dimensions(given)
        contents = sorted({n for p in self._programs for n, *_ in p.contents})
        return Signature.of(given, contents, ranges)

    def _explained(self, event: str, reason: str, signature: Signature) -> str:
        """The reason of a call that met no program, with what followed from it."""
        if event == "refused":
            return self._refused[signature]
        if event == "started":
            return f"{reason}; started from the kept program"
        missed = self._not_kept.get(signature, NEVER)
        return reason if missed == NEVER else f"{reason}; no kept program: {missed}"

    def _reason(self, given: Inputs) -> str:
        """How the inputs differ from the known program that is most like them."""
        if not self._programs:
            return "nothing was compiled before"
        found = [s.differences(given) for s in reversed(self._programs)]
        return "; ".join(min(found, key=len))

    # -- the log -----------------------------------------------------------------------------

    def _log(
        self, text: str, answered_by: str, event: str, reason: str, started: float, waited: float
    ) -> None:
        seconds = time.perf_counter() - started
        with self._lock:
            self._count += 1
            self._entries.append((self._count, text, answered_by, event, reason, seconds, waited))
            if reason:
                self._last_miss = f"call {self._count} ({event}): {reason}"

    # -- inputs ------------------------------------------------------------------------------

    def _form(self, inputs: Inputs) -> tuple[object, ...]:
        """Types and shapes of all inputs; empty where one is missing or is no plain array.

        Whatever the checks below look at is part of it, so that inputs of a known form pass them.
        """
        if len(inputs) != len(self._names):
            return ()
        form: list[object] = []
        for name in self._names:
            array = inputs.get(name)
            if type(array) is not np.ndarray:
                return ()
            form += (array.dtype, array.shape)
        return tuple(form)
