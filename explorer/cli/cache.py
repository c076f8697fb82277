"""`explorer cache`: the compiled programs that are kept, why one is missing, and how to ship them.

explorer cache list
explorer cache explain MODEL --target T      found, or what differs from the last time
explorer cache verify [--repair]             every entry against its seal and its headers
explorer cache prune [--most 200MB]          those that were not used for longest
explorer cache export MODEL -o FILE          for ex.start(MODEL, programs=FILE), or a Session

The folder is what EXPLORER_CACHE says (`off`: none), or `--folder`.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.cli import arguments as options
from explorer.cli.terminal import Progress, print_json, print_lines, print_note
from explorer.errors import InputError
from explorer.files import check_output, write_file

if TYPE_CHECKING:
    from explorer.compilation import Compilation
    from explorer.results.runs.saved_program import SavedProgram
    from explorer.runtime.cache import Missed, ProgramCache
    from explorer.runtime.cache.saved_programs import Startable
    from explorer.session import ModelSource

SUMMARY = "list, explain, verify, prune and export compiled programs"
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
DIFFERENT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, text: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=text, description=text)
        made.add_argument("--folder", type=Path, help="another folder than EXPLORER_CACHE's")
        return made

    options.add_json(action("list", "what is kept, the last used first"))
    explain = action("explain", "whether a model's program is kept, or why not")
    _add_compilation(explain)
    options.add_json(explain)
    verify = action("verify", "every entry against its seal and the headers it was made of")
    verify.add_argument("--repair", action="store_true", help="drop what is damaged")
    options.add_json(verify)
    prune = action("prune", "drop what was not used for longest")
    prune.add_argument(
        "--most", type=_size, metavar="SIZE", help="what may stay, as 200MB; 0: nothing (1 GB)"
    )
    export = action("export", "the compiled program of a model, for a machine like this one")
    _add_compilation(export)
    export.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    export.add_argument(
        "--without-source", action="store_true", help="leave out kernel text and model name"
    )


def _add_compilation(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    options.add_compiling(parser)


def run(arguments: argparse.Namespace) -> int:
    return {
        "list": _list,
        "explain": _explain,
        "verify": _verify,
        "prune": _prune,
        "export": _export,
    }[arguments.action](arguments)


def _list(arguments: argparse.Namespace) -> int:
    from explorer.backends.loading import saved_programs
    from explorer.runtime.cache.tuned import TunedStore

    cache = _cache(arguments)
    entries = cache.entries()
    kept = saved_programs(cache).programs()
    tuned = TunedStore(cache.folder).entries()
    if arguments.json:
        print_json(
            {
                "folder": str(cache.folder),
                "limit_bytes": cache.limit_bytes,
                "entries": [
                    {**dataclasses.asdict(entry), "path": str(entry.path)} for entry in entries
                ],
                "kept": [described(path, program) for path, program in kept],
                "tuned": [dataclasses.asdict(entry) for entry in tuned],
            }
        )
        return 0
    now = time.time()
    for entry in entries:
        age = max(0, now - entry.used_at) / 3600
        print_lines(
            [
                f"{entry.digest[:12]}  {entry.language:6}  {entry.size_bytes / 1024:8,.0f} KiB  "
                f"built in {entry.build_seconds:.2f} s, used {age:.1f} h ago  "
                f"{entry.name or '(no name)'}  {entry.compiler}"
            ]
        )
    for path, program in kept:
        sizes = ", ".join(f"{name}={shown_size(*size)}" for name, *size in program.sizes)
        print_lines(
            [
                f"{program.binary[:12]}  kept    {program.program.weights_bytes / 1024:8,.0f} KiB "
                f"of weights, compiled in {program.compile_seconds:.2f} s  "
                f"{program.model.name or '(no name)'}{' ' * bool(sizes)}{sizes}  "
                f"{program.target}  {path.name}"
            ]
        )
    print_lines(
        f"{entry.key.digest()[:12]}  tuned   {entry.kernel}  {entry.tuned_us:.1f} µs against "
        f"{entry.default_us:.1f}, {entry.key.threads} thread(s), {entry.key.target}"
        for entry in tuned
    )
    total = cache.total_bytes()
    print_lines(
        [
            f"{len(entries)} programs, {len(kept)} of them finished, {total / (1 << 20):,.1f} MiB, "
            f"and {len(tuned)} tuned schedules in {cache.folder or 'no folder'}"
        ]
    )
    return 0


def described(path: Path, kept: SavedProgram) -> dict[str, object]:
    """A finished program as JSON has it, without its launches."""
    return {
        "path": str(path),
        "name": kept.model.name,
        "file": kept.path,
        "target": kept.target,
        "options": kept.options,
        "sizes": {name: shown_size(*size) for name, *size in kept.sizes},
        "circumstances": dict(kept.circumstances),
        "binary": kept.binary,
        "weights": kept.weights,
        "weights_bytes": kept.program.weights_bytes,
        "compile_seconds": kept.compile_seconds,
        "made_at": kept.made_at,
    }


def shown_size(lowest: int, highest: int) -> str:
    """`4`, or `1..8`."""
    return str(lowest) if lowest == highest else f"{lowest}..{highest}"


def _explain(arguments: argparse.Namespace) -> int:
    from explorer.runtime.cache import FoundEntry
    from explorer.runtime.cache.saved_programs import Startable
    from explorer.session import ModelSource

    cache = _cache(arguments)
    source = ModelSource(
        options.model_of(arguments), arguments.target, options.compile_options(arguments), cache
    )
    finished = _finished(source, dict(arguments.dim))
    if isinstance(finished, Startable):
        kept = finished.kept
        if arguments.json:
            print_json(
                {"digest": kept.binary, "found": True, "reason": "", "kept": True}
                | ({} if finished.binary is None else dict(finished.binary.key))
            )
        else:
            name = kept.binary[:12] or "what the host runs"
            print_lines([f"{name} is kept, and starts without compiling"])
        return 0
    compilation = _compiled(arguments, source)
    try:
        keys = compilation.program_keys
    finally:
        compilation.close()
    if not keys:
        raise InputError("all of it runs on the host: there is no binary")
    # Of several parts the first one that is not there.
    looked = [(key, cache.find(key)) for key in keys]
    missed = [(key, found.reason) for key, found in looked if not isinstance(found, FoundEntry)]
    key, reason = missed[0] if missed else (keys[0], "")
    if arguments.json:
        print_json(
            {
                "digest": key.digest(),
                "found": not reason,
                "reason": reason,
                "kept": False,
                "kept_reason": finished.reason,
                **key.fields,
            }
        )
    elif reason:
        print_lines([f"{key.digest()[:12]} would be built: {reason}"])
    else:
        words = f"would be compiled up to its binary: {finished.reason}"
        print_lines([f"{key.digest()[:12]} is kept, but {words}"])
    return DIFFERENT if reason else 0


def _finished(
    source: ModelSource, sizes: Mapping[str, int | tuple[int, int]]
) -> Startable | Missed:
    """The finished program of a model, or why there is none."""
    from explorer.runtime.cache import Missed
    from explorer.runtime.cache.requests import sizes_of

    bound = sizes_of(source.interface, sizes)
    if source.request is None:
        return Missed(source.undigested)
    if bound is None:
        return Missed("these sizes do not fit the model")
    return source.kept.find(source.request, bound)


def _compiled(arguments: argparse.Namespace, source: ModelSource) -> Compilation:
    import explorer

    with Progress("compiling") as progress:
        return explorer.compile(
            source.model,
            arguments.target,
            dimensions=dict(arguments.dim),
            progress=progress,
            **options.compile_options(arguments),
        )


def _verify(arguments: argparse.Namespace) -> int:
    from explorer.backends.loading import saved_programs
    from explorer.runtime.cache.saved_programs import drop
    from explorer.runtime.cache.tuned import TunedStore

    cache = _cache(arguments)
    tuned = TunedStore(cache.folder)
    kept = saved_programs(cache)
    of_entries = cache.verify()
    wrong = {**of_entries, **kept.verify(), **tuned.verify()}
    if arguments.repair:
        for path in wrong:
            cache.drop(path.stem) if path in of_entries else drop(path)
    if arguments.json:
        print_json({"wrong": {str(path): reason for path, reason in wrong.items()}})
    else:
        print_lines(f"{path.name}: {reason}" for path, reason in wrong.items())
        count = len(cache.entries()) + len(kept.programs()) + len(tuned.entries())
        ending = "dropped" if arguments.repair else "wrong"
        print_lines([f"{len(wrong)} {ending}, {count} entries"])
    return DIFFERENT if wrong and not arguments.repair else 0


def _prune(arguments: argparse.Namespace) -> int:
    from explorer.backends.loading import saved_programs

    cache = _cache(arguments)
    dropped = cache.prune(arguments.most)
    stay = len(cache.entries()) + len(saved_programs(cache).programs())
    print_lines([f"{len(dropped)} dropped, {stay} stay"])
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from explorer.compilation.programs import bundle_for, finished_for
    from explorer.runtime.cache import ProgramCache
    from explorer.session import ModelSource

    check_output(arguments.output)
    source = ModelSource(
        options.model_of(arguments),
        arguments.target,
        options.compile_options(arguments),
        ProgramCache(None),
    )
    compilation = _compiled(arguments, source)
    try:
        undigested = source.undigested
        finished = finished_for(compilation, source.request) if source.request else undigested
        if isinstance(finished, str):
            print_note(f"who gets the file has to compile up to the binary: {finished}")
        programs = () if isinstance(finished, str) else (finished,)
        content = bundle_for(compilation, not arguments.without_source, programs)
    finally:
        compilation.close()
    write_file(arguments.output, content)
    print_lines([f"{arguments.output}: {len(content) / 1024:,.0f} KiB"])
    return 0


def _cache(arguments: argparse.Namespace) -> ProgramCache:
    from explorer.runtime.cache.folder import required_folder

    return required_folder(arguments.folder)


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not found:
        raise argparse.ArgumentTypeError(f"expected a size such as 200MB: {text!r}")
    return int(found.group(1)) * UNITS[found.group(2).upper()]
