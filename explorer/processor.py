"""What the processor of this machine is: name, SIMD width, cores, memory."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path

PROCESSOR_FILE = Path("/proc/cpuinfo")
CACHE_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
KINDS_FOLDER = Path("/sys/devices")
INTEL_KINDS = {"cpu_core": "performance cores", "cpu_atom": "efficient cores"}
"""Linux' counters of a processor with both, each with the list of its processors in `cpus`."""

AMD_FAMILIES = (
    (0x17, range(0x30), "znver1"),
    (0x17, range(0x30, 0x100), "znver2"),
    (0x19, (*range(0x10), *range(0x20, 0x60)), "znver3"),
    (0x19, (*range(0x10, 0x20), *range(0x60, 0xB0)), "znver4"),
    (0x1A, range(0x100), "znver5"),
)
"""Family, models, and LLVM's name (llvm/lib/TargetParser/Host.cpp)."""
INTEL_MODELS = {
    **dict.fromkeys((0x3C, 0x3F, 0x45, 0x46), "haswell"),
    **dict.fromkeys((0x3D, 0x47, 0x4F, 0x56), "broadwell"),
    **dict.fromkeys((0x4E, 0x5E, 0x8E, 0x9E, 0xA5, 0xA6), "skylake"),
    0x55: "skylake-avx512",
    **dict.fromkeys((0x6A, 0x6C), "icelake-server"),
    **dict.fromkeys((0x97, 0x9A, 0xB7, 0xBA, 0xBF), "alderlake"),
    0xBE: "gracemont",
    0x8F: "sapphirerapids",
    0xCF: "emeraldrapids",
    **dict.fromkeys((0xAD, 0xAE), "graniterapids"),
}
"""Of family 6."""
ARM_PARTS = {
    0xD03: "cortex-a53",
    0xD07: "cortex-a57",
    0xD08: "cortex-a72",
    0xD0B: "cortex-a76",
    0xD0C: "neoverse-n1",
    0xD40: "neoverse-v1",
    0xD49: "neoverse-n2",
    0xD4F: "neoverse-v2",
}
APPLE = 0x61
"""Who implements Apple's processors, by the number in Arm's register MIDR; all count as the first.
"""
FEATURES = {
    "sse2": ("sse2",),
    "avx2": ("avx2",),
    "fma": ("fma",),
    "avx512": ("avx512f",),
    "avx512_vnni": ("avx512_vnni", "avx512vnni"),
    "avx_vnni": ("avx_vnni", "avxvnni"),
    "avx512_bf16": ("avx512_bf16",),
    "avx512_fp16": ("avx512_fp16",),
    "amx_int8": ("amx_int8",),
    "amx_bf16": ("amx_bf16",),
    "neon": ("asimd",),
    "dotprod": ("asimddp",),
    "i8mm": ("i8mm",),
    "bf16": ("bf16",),
    "sve": ("sve",),
}
"""Names here, and what Linux calls them in /proc/cpuinfo."""


def vector_floats(processor_text: str | None = None) -> int:
    """How many float32 a vector register holds: 16 (AVX-512), 8 (AVX2), else 4 (SSE, NEON).

    Compiling for more than the machine has is far slower than for less, so what is unknown
    counts as 4. `processor_text` stands in for this machine's `/proc/cpuinfo`.
    """
    return lanes_of(processor_features(processor_text))


def lanes_of(features: Collection[str]) -> int:
    """float32 in a vector of code that uses such features, by their names in `FEATURES`."""
    if "avx512" in features:
        return 16
    return 8 if {"avx2", "fma"} <= set(features) else 4


def processor_name() -> str:
    """`AMD EPYC 9R14`, or the architecture where the system does not say."""
    found = re.search(r"^model name\s*:\s*(.+)$", read_processor_text(), re.MULTILINE)
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def processor_family(processor_text: str | None = None) -> str:
    """The family of processors as LLVM names it (`znver4`, `icelake-server`, `neoverse-n1`).

    Empty where it is not known here. `processor_text` stands in for `/proc/cpuinfo`.
    """
    text = read_processor_text() if processor_text is None else processor_text
    if "AuthenticAMD" in text:
        family, model = _number("cpu family", text), _number("model", text)
        return next(
            (name for f, models, name in AMD_FAMILIES if f == family and model in models), ""
        )
    if "GenuineIntel" in text and _number("cpu family", text) == 6:
        return INTEL_MODELS.get(_number("model", text), "")
    if _number("CPU implementer", text) == APPLE or re.search(r": Apple M\d", text):
        return "apple-m1"
    return ARM_PARTS.get(_number("CPU part", text), "")


def recognized_by(processor_text: str | None = None) -> str:
    """The numbers by which the family is known: `AuthenticAMD, family 25, model 17`."""
    text = read_processor_text() if processor_text is None else processor_text
    vendor = next((v for v in ("AuthenticAMD", "GenuineIntel") if v in text), "")
    if vendor:
        return f"{vendor}, family {_number('cpu family', text)}, model {_number('model', text)}"
    if _number("CPU part", text) >= 0:
        numbers = _number("CPU implementer", text), _number("CPU part", text)
        return "MIDR, implementer 0x{:x}, part 0x{:x}".format(*numbers)
    return "the system's name for it" if "model name" in text else "nothing that the system tells"


def core_kinds(
    processor_text: str | None = None, folder: Path = KINDS_FOLDER
) -> tuple[tuple[str, int], ...]:
    """What kinds of cores a processor has, and logical processors of each, the first one first.

    Empty where all are alike, or the system does not tell. Arm's differ by their part; Intel's
    have the same number, and Linux counts their events apart.
    """
    text = read_processor_text() if processor_text is None else processor_text
    parts = re.findall(r"^CPU part\s*:\s*(0x[0-9a-fA-F]+)\s*$", text, re.MULTILINE)
    names = [ARM_PARTS.get(int(part, 0), f"part {part}") for part in parts]
    found = {name: names.count(name) for name in names}
    for kind, name in INTEL_KINDS.items():
        try:
            listed = (folder / kind / "cpus").read_text().strip()
        except OSError:
            continue
        spans = [[int(end) for end in span.split("-")] for span in listed.split(",") if span]
        found[name] = sum(span[-1] - span[0] + 1 for span in spans)
    return tuple(found.items()) if len(found) > 1 else ()


def processor_features(processor_text: str | None = None) -> frozenset[str]:
    """Instructions that the system lists, by their names in `FEATURES`."""
    listed = _features(read_processor_text() if processor_text is None else processor_text)
    return frozenset(name for name, words in FEATURES.items() if listed & set(words))


def core_count() -> int:
    """Cores that this process may use, which can be fewer than the machine has."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cache_bytes() -> dict[str, int]:
    """Sizes of the caches that hold data, by level: `{"l1": 32768, "l2": 1048576, ...}`.

    Empty where the system does not say.
    """
    return dict(_cache_sizes())


@cache
def _cache_sizes() -> tuple[tuple[str, int], ...]:
    sizes: dict[str, int] = {}
    for folder in sorted(CACHE_FOLDER.glob("index*")):
        try:
            kind, level, size = (
                (folder / name).read_text().strip() for name in ("type", "level", "size")
            )
        except OSError:
            continue
        found = re.fullmatch(r"(\d+)([KM]?)", size)
        if kind in ("Data", "Unified") and found:
            unit = {"": 1, "K": 1 << 10, "M": 1 << 20}[found.group(2)]
            sizes[f"l{level}"] = int(found.group(1)) * unit
    return tuple(sizes.items())


def clock_hz() -> float:
    """The clock that the system tells of the first core; 0 where it does not."""
    found = re.search(r"^cpu MHz\s*:\s*([\d.]+)$", read_processor_text(), re.MULTILINE)
    return float(found.group(1)) * 1e6 if found else 0.0


def memory_bytes() -> int:
    """Physical memory; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0


@cache
def read_processor_text() -> str:
    """The system's description of its processor in the form of `/proc/cpuinfo`.

    A process reads it once: Linux asks every core for its clock, which takes milliseconds.
    """
    if PROCESSOR_FILE.is_file():
        return PROCESSOR_FILE.read_text(errors="replace")
    if sys.platform == "darwin":
        return (
            f"model name : {_system_control('machdep.cpu.brand_string')}\n"
            f"flags : {_system_control('machdep.cpu.features')} "
            f"{_system_control('machdep.cpu.leaf7_features')}\n"
        ).replace("AVX1.0", "AVX")
    return ""


def _features(processor_text: str) -> set[str]:
    found = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", processor_text, re.MULTILINE)
    return set(found.group(1).lower().split()) if found else set()


def _number(name: str, processor_text: str) -> int:
    """The first core's; -1 where the system does not tell it."""
    found = re.search(rf"^{name}\s*:\s*(0x[0-9a-fA-F]+|\d+)\s*$", processor_text, re.MULTILINE)
    return int(found.group(1), 0) if found else -1


def _system_control(key: str) -> str:
    """A value of macOS' sysctl; empty where this processor has no such key."""
    finished = subprocess.run(
        ["/usr/sbin/sysctl", "-n", key], capture_output=True, text=True, timeout=10, check=False
    )
    return finished.stdout.strip()
