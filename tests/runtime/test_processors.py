"""Code for another processor than the one at hand: 16 registers hold every tile, and no loop that
adds up products moves a vector to the stack.

Winograd's transforms are no such loops: they work on 36 values at once, more than there are names
for, and keep the rows between their two stages in memory.
"""

import platform
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.errors import BuildError
from explorer.runtime.compilers import compile_shared_library, compiler_for
from explorer.targets import load_target

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="names of x86's levels")

PROCESSORS = {"x86-64-v3": 8, "x86-64": 4}
LABEL = re.compile(r"^(\.L\d+):", re.MULTILINE)
JUMP = re.compile(r"^\tj\w+\s+(\.L\d+)$")
MULTIPLY = re.compile(r"\tv?(fn?madd\d+ps|mulps)\b")
TRANSFORM = re.compile(r"\tv?subps\b")
TO_THE_STACK = re.compile(r"\tv?mov[au]ps\b.*\(%rsp\)")


def weights(generator: np.random.Generator, name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(generator.standard_normal(shape).astype(np.float32), name)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A stem, a 3x3 convolution, depthwise, 1x1, and a product, at sizes that leave something."""
    generator = np.random.default_rng(7)
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1] * 4),
        helper.make_node("Conv", ["c", "w2"], ["d"], pads=[1] * 4, group=32),
        helper.make_node("Conv", ["d", "w3"], ["e"]),
        helper.make_node("Clip", ["e", "low", "high"], ["f"]),
        helper.make_node("Flatten", ["f"], ["g"], axis=2),
        helper.make_node("MatMul", ["g", "w4"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "left_overs",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 29, 29])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [48, 60])],
        [
            weights(generator, "w0", 32, 3, 3, 3),
            weights(generator, "w1", 32, 32, 3, 3),
            weights(generator, "w2", 32, 1, 3, 3),
            weights(generator, "w3", 48, 32, 1, 1),
            weights(generator, "w4", 225, 60),
            numpy_helper.from_array(np.float32(-50), "low"),
            numpy_helper.from_array(np.float32(50), "high"),
        ],
    )
    path = tmp_path_factory.mktemp("processors") / "left_overs.onnx"
    graph.output[0].type.tensor_type.shape.Clear()
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


@pytest.fixture(scope="module", params=PROCESSORS)
def compiled(request, model):
    return explorer.compile(model, load_target("cpu", {"processor": request.param}))


def hot_loops(assembly: str) -> list[list[str]]:
    """The innermost loops that add up products of vectors, each as its lines."""
    loops = []
    for part in re.split(r"^\w+:$", assembly, flags=re.MULTILINE):
        lines = part.splitlines()
        labels = {found.group(1): k for k, line in enumerate(lines) if (found := LABEL.match(line))}
        spans = []
        for end, line in enumerate(lines):
            found = JUMP.match(line)
            if found and labels.get(found.group(1), end) < end:
                spans.append((labels[found.group(1)], end))
        for first, last in spans:
            if any(first <= a and b <= last and (a, b) != (first, last) for a, b in spans):
                continue
            body = lines[first : last + 1]
            products = sum(bool(MULTIPLY.search(line)) for line in body)
            if products > 1 and not any(map(TRANSFORM.search, body)):
                loops.append(body)
    return loops


@pytest.mark.sampled(1)
def test_vectors_registers_and_results_are_those_of_the_processor_that_is_named(compiled):
    processor = compiled.target.processor
    assert compiled.program.processor == processor
    core = compiled.backend.core(compiled.target)
    assert core.core.vector_registers == 16
    assert core.core.fuses_products == (processor == "x86-64-v3")
    assert f"float{PROCESSORS[processor]} acc" in "\n".join(compiled.program.source.lines)
    assert compiled.accuracy().report.passed


def test_every_tile_fits_into_its_registers(compiled):
    for cost in compiled.costs():
        spills = [term.microseconds for term in cost.terms if term.name == "spills"]
        choices = compiled.schedule[cost.kernel]
        if str(choices["schedule"]).startswith("winograd"):
            vectors, points = choices["vectors"], choices["pixels"] * choices["rows"]
            assert vectors * points + vectors + 1 <= 16
        else:
            assert not any(spills), f"{cost.kernel}: {choices}"


def test_no_loop_that_multiplies_moves_a_vector_to_the_stack(compiled, tmp_path):
    source = "\n".join(compiled.program.source.lines) + "\n"
    compiler = compiler_for(compiled.target.processor)
    path = compile_shared_library(source, tmp_path, compiler, ("-S",))
    loops = hot_loops(path.read_text())
    assert len(loops) > 5
    moved = ["\n".join(body) for body in loops if any(map(TO_THE_STACK.search, body))]
    assert not moved, moved[0]


def test_a_processor_that_the_compiler_does_not_know_is_refused_by_its_name(model):
    with pytest.raises(BuildError, match="pentium-9") as caught:
        explorer.compile(model, load_target("cpu", {"processor": "pentium-9"}))
    assert "C compiler has for a processor" in caught.value.hint
