"""What layers read through is fused by rules: events, declined matches, decisions."""

import numpy as np
import pytest

import explorer
from explorer.errors import UnsupportedError
from explorer.ir.operation import identity_of
from explorer.ir.structure import operations
from explorer.npu.layers.fusion import EXPLANATIONS

PASS = "tile-layers"


@pytest.fixture(scope="module")
def transformer(sample_models):
    images = np.load(sample_models / "digits_test.npz")["images"]
    model = sample_models / "digits_transformer.onnx"
    table = explorer.calibrate(model, {"image": images[:4]}, method="min-max", corrections=(),
                               arithmetic="integer")  # fmt: skip
    c = explorer.compile(model, "odd-12x20", quantization=table)
    yield c, {"image": images[:1]}
    c.close()


def fusions(result):
    return [e for e in result.events if e.rule in EXPLANATIONS]


def names(snapshot):
    return {identity_of(op): op.name for op in operations(snapshot.program)}


def test_every_operation_without_a_layer_is_fused_by_an_event(transformer):
    c, _ = transformer
    result = c[PASS]
    before, after = names(result.before), names(result.after)
    gone = {name for name, kind in before.items() if name not in after and kind != "top.weight"}
    fused = {e.site for e in fusions(result) if e.applied}
    assert fused == gone and {e.rule for e in fusions(result) if e.applied} == set(EXPLANATIONS)
    readers = {e.site: e.explanation.partition(":")[0].split(", ") for e in fusions(result)}
    assert all(set(readers[site]) <= set(before) for site in fused)


def test_a_declined_fusion_names_who_reads_the_result_as_it_is(transformer):
    c, _ = transformer
    declined = [e for e in fusions(c[PASS]) if not e.applied]
    assert declined
    before, after = names(c[PASS].before), names(c[PASS].after)
    for event in declined:
        reader = event.reason.removeprefix("its result is read as it is by ")
        assert reader != event.reason and event.site in after
        assert all(one in before or one == "top.return" for one in reader.split(", "))


def test_an_override_gives_a_move_a_layer_of_its_own(transformer):
    c, given = transformer
    site = next(e.site for e in fusions(c[PASS]) if e.applied and e.rule == "fuse-moves")
    fork = c.fork(decisions={f"{PASS}/fuse-moves/{site}": False})
    (event,) = [e for e in fusions(fork[PASS]) if e.site == site]
    assert not event.applied and event.reason == "declined by an override"
    assert names(fork[PASS].after)[site] in (
        "npu.convolution",
        "npu.partition",
    ) and site not in names(c[PASS].after)
    for name, array in c.run(given).items():
        np.testing.assert_array_equal(fork.run(given)[name], array)
    assert fork.counted.cycles > c.counted.cycles
    fork.close()


def test_sums_that_no_layer_stores_are_refused_with_their_name(transformer):
    c, _ = transformer
    site = next(e.site for e in fusions(c[PASS]) if e.applied and e.rule == "fuse-sums"
                and names(c[PASS].before)[e.site] == "top.cast")  # fmt: skip
    with pytest.raises(UnsupportedError) as refused:
        c.fork(decisions={f"{PASS}/fuse-sums/{site}": False})
    assert any(site in problem for problem in refused.value.problems)
