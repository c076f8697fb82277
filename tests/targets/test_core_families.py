"""Cores: every family's record, what goes before it, and by what a processor is recognized."""

import dataclasses

import pytest

from explorer import processor
from explorer.backends.cores import known_core
from explorer.cli.devices import core_lines
from explorer.errors import InputError
from explorer.processor import core_kinds, processor_family, processor_features, recognized_by
from explorer.runtime.features import features_in
from explorer.targets import Cache, CoreOverrides, core_families, load_target
from explorer.targets.core_families import (
    MeasuredCore,
    core_family,
    describe_core,
    family_of,
    list_core_families,
)

ZEN4 = """
vendor_id : AuthenticAMD
cpu family : 25
model : 17
model name : AMD EPYC
flags : sse2 avx2 fma avx512f avx512_vnni avx512_bf16
"""
SAPPHIRE_RAPIDS = """
vendor_id : GenuineIntel
cpu family : 6
model : 143
flags : sse2 avx2 fma avx512f avx512_vnni avx_vnni amx_int8 amx_bf16
"""
NEOVERSE_V1 = """
CPU implementer : 0x41
CPU part : 0xd40
Features : fp asimd asimddp sve i8mm bf16
"""


def test_the_system_is_asked_once_for_its_processor(monkeypatch, tmp_path):
    known = known_core(load_target("cpu"))
    monkeypatch.setattr(processor, "PROCESSOR_FILE", tmp_path)
    monkeypatch.setattr(processor, "CACHE_FOLDER", tmp_path)
    monkeypatch.setattr(core_families, "_text_of", None)
    assert known_core(load_target("cpu")) == known


@pytest.mark.parametrize("name", list_core_families())
def test_every_family_names_its_sources_and_is_a_core_that_can_be(name):
    family = core_family(name)
    assert family.sources
    core = family.core
    assert core.vector_registers in (16, 32)
    assert (core.vector_registers == 16) == (
        family.architecture == "x86_64" and "avx512" not in family.features
    ) or name.startswith("generic")
    sums = core.arithmetic_units * core.multiply_add_latency_cycles
    assert sums < core.vector_registers, "no tile could keep its units busy"
    sizes = [cache.size_bytes for cache in family.caches]
    assert sizes == sorted(sizes)
    assert all(cache.bytes_per_cycle and cache.ways for cache in family.caches)
    rates = [cache.bytes_per_cycle or 0 for cache in family.caches]
    assert rates == sorted(rates, reverse=True), "what is farther is not faster"


def test_no_processor_has_two_families():
    names = [llvm for name in list_core_families() for llvm in core_family(name).families]
    assert len(names) == len(set(names))
    assert all(family_of(name).families for name in names)


@pytest.mark.parametrize(
    ("text", "family", "numbers", "feature"),
    [
        (ZEN4, "zen4", "AuthenticAMD, family 25, model 17", "avx512_bf16"),
        (SAPPHIRE_RAPIDS, "sapphire_rapids", "GenuineIntel, family 6, model 143", "amx_int8"),
        (NEOVERSE_V1, "neoverse_v1", "MIDR, implementer 0x41, part 0xd40", "i8mm"),
    ],
)
def test_a_processor_is_recognized_by_its_numbers(text, family, numbers, feature):
    assert family_of(processor_family(text)).name == family
    assert recognized_by(text) == numbers
    assert feature in processor_features(text)


def test_cores_of_several_kinds_are_counted_and_said(tmp_path):
    both = "CPU part : 0xd03\n" * 4 + "CPU part : 0xd08\n" * 2
    assert core_kinds(both, tmp_path) == (("cortex-a53", 4), ("cortex-a72", 2))
    assert core_kinds(NEOVERSE_V1, tmp_path) == core_kinds(ZEN4, tmp_path) == ()
    for kind, processors in (("cpu_core", "0-15"), ("cpu_atom", "16-22,23")):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "cpus").write_text(f"{processors}\n")
    kinds = core_kinds("vendor_id : GenuineIntel\n", tmp_path)
    assert kinds == (("performance cores", 16), ("efficient cores", 8))
    core = describe_core(core_family("alder_lake_p"), "", ["avx2"])
    assert not any("several kinds" in line for line in core_lines(core))
    (line,) = [
        line
        for line in core_lines(dataclasses.replace(core, kinds=kinds))
        if "several kinds" in line
    ]
    assert "16 of performance cores, 8 of efficient cores" in line


def test_a_processor_that_is_not_told_apart_counts_as_its_architecture():
    assert family_of("", "aarch64").name == "generic_aarch64"
    assert family_of("k8", "x86_64").name == "generic_x86_64"


def test_code_for_avx2_has_16_registers_on_a_core_that_has_32():
    family = core_family("zen4")
    assert describe_core(family, "", ["avx2", "fma"]).core.vector_registers == 16
    assert describe_core(family, "", ["avx2", "avx512"]).core.vector_registers == 32
    assert describe_core(core_family("neoverse_n1"), "", ["neon"]).core.vector_registers == 32


def test_a_target_goes_before_a_measurement_and_that_before_the_tables():
    measured = MeasuredCore(
        core=CoreOverrides(load_units=3, store_units=2), caches=(Cache("l2", bytes_per_cycle=20),)
    )
    core = describe_core(
        core_family("zen4"),
        "",
        ["avx2"],
        CoreOverrides(store_units=1, issued_per_cycle=4),
        (Cache("l2", ways=4), Cache("l4", bytes_per_cycle=5, size_bytes=1 << 30)),
        measured,
        {"l1": 65536},
    )
    assert (core.core.load_units, core.core.store_units, core.core.issued_per_cycle) == (3, 1, 4)
    levels = {cache.name: cache for cache in core.caches}
    assert (levels["l2"].bytes_per_cycle, levels["l2"].ways) == (20, 4)
    assert (levels["l1"].size_bytes, levels["l2"].size_bytes) == (65536, 1 << 20)
    assert levels["l4"].bytes_per_cycle == 5
    assert core.measured == ("core.load_units", "core.store_units", "caches.l2.bytes_per_cycle")
    assert core.overridden[:3] == ("core.store_units", "core.issued_per_cycle", "caches.l2.ways")


def test_what_a_target_may_say_is_what_a_core_has():
    from explorer.targets import Core

    names = [field.name for field in dataclasses.fields(CoreOverrides)]
    assert names == ["family", *(field.name for field in dataclasses.fields(Core))]


def test_a_target_names_another_family_and_has_its_usual_caches():
    core = known_core(load_target("cpu", {"core.family": "haswell", "core.load_units": 1}))
    assert core.family.name == "haswell"
    assert core.recognized_by == "named by the target cpu"
    assert core.core.load_units == 1
    assert [cache.size_bytes for cache in core.caches[:2]] == [32768, 262144]
    with pytest.raises(InputError, match="did you mean 'haswell'"):
        known_core(load_target("cpu", {"core.family": "hasswell"}))


def test_features_are_read_from_a_compilers_macros():
    text = "#define __AVX2__ 1\n#define __FMA__ 1\n#define __SSE2__ 1\n#define __AVX512 1\n"
    assert features_in(text) == {"avx2", "fma", "sse2"}
