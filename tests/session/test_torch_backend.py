"""PyTorch in this process: modules as models, judged node by node, and torch.compile.

They skip where torch is not installed (its CPU build: scripts/setup.sh).
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.compilation import Compilation
from explorer.errors import InputError, ModelError
from explorer.importers.model import SourceModel
from explorer.runtime.executable import Executable

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about itself


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")


@pytest.fixture(scope="module")
def net(torch: Any) -> Any:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(8)
            self.head = torch.nn.Linear(8, 4)

        def forward(self, x):
            y = torch.relu_(self.norm(self.conv(x))).mean((2, 3))
            y[:, 0] = 1.0
            return self.head(y), {"features": y}

    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def image(torch: Any) -> Any:
    return torch.randn(2, 3, 8, 8)


@pytest.fixture(scope="module")
def model(net: Any, image: Any) -> SourceModel:
    return ex.load(net, args=(image,))


def test_a_module_is_a_model_with_the_lines_of_its_class(model: SourceModel):
    conv = next(node for node in model.nodes if node.operator == "aten.conv2d")
    assert conv.name == "conv/conv2d"
    assert conv.text.endswith("# conv (Conv2d)")
    assert conv.places[-1].file == "session/test_torch_backend.py"
    assert conv.places[-1].text == "y = torch.relu_(self.norm(self.conv(x))).mean((2, 3))"
    assert list(model.constants)[:2] == ["conv.weight", "conv.bias"]


def test_every_tensor_is_compared_with_torch_node_by_node(model: SourceModel):
    c = ex.compile(model)
    try:
        report = c.accuracy().report
        assert report.passed and not report.oracle_note
        assert report.oracle.startswith("PyTorch 2.13")
        compared = {tensor.tensor for found in report.passes for tensor in found.tensors}
        assert {"relu_", "mean after fill_", "linear"} <= compared
    finally:
        c.close()


def test_outputs_are_those_of_eager(model: SourceModel, net: Any, image: Any, torch: Any):
    found = ex.interpret(model, {"x": image.numpy()})
    with torch.no_grad():
        scores, others = net(image)
    first, second = (found[value.name] for value in model.outputs)
    np.testing.assert_allclose(first, scores.numpy(), atol=1e-6)
    np.testing.assert_allclose(second, others["features"].numpy(), atol=1e-6)


def test_a_decomposed_program_means_the_same(net: Any, image: Any, torch: Any, model: SourceModel):
    program = torch.export.export(net, (image,)).run_decompositions()
    decomposed = ex.load(program)
    assert not any(node.operator.endswith("_") for node in decomposed.nodes)
    inputs = {"x": image.numpy()}
    pairs = zip(
        ex.interpret(decomposed, inputs).values(), ex.interpret(model, inputs).values(), strict=True
    )
    for ours, other in pairs:
        np.testing.assert_allclose(ours, other, atol=1e-6)


def test_sizes_may_stay_open(net: Any, image: Any, torch: Any):
    shapes = {"x": {0: torch.export.Dim("batch", min=2, max=16)}}
    open_model = ex.load(net, args=(image,), dynamic_shapes=shapes)
    (name,) = open_model.ranges
    assert open_model.ranges[name] == (2, 16)
    x = np.random.default_rng(0).normal(size=(5, 3, 8, 8)).astype(np.float32)
    with torch.no_grad():
        expected = net(torch.from_numpy(x))[0].numpy()
    found = next(iter(ex.interpret(open_model, {"x": x}).values()))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_module_without_arguments_is_refused(net: Any):
    with pytest.raises(InputError, match=r"give example arguments: args=\(x,\)"):
        ex.load(net)
    with pytest.raises(ModelError, match="torch cannot export Net"):
        ex.load(net, args=())


def test_random_numbers_are_refused_with_the_way_out(torch: Any):
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    with pytest.raises(ex.ExplorerError) as caught:
        ex.compile(module, args=(torch.randn(2, 4),))
    assert "module.eval()" in "\n".join(caught.value.problems)  # type: ignore[attr-defined]


def test_recurrent_layers_and_attention_are_those_of_torch(torch: Any):
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    cases = [
        (torch.nn.LSTM(5, 6, 2, bidirectional=True, batch_first=True), torch.randn(2, 4, 5)),
        (torch.nn.GRU(5, 6), torch.randn(4, 2, 5)),
        (torch.nn.RNN(5, 6, nonlinearity="relu"), torch.randn(4, 2, 5)),
        (torch.nn.TransformerEncoder(layer, 1), torch.randn(2, 7, 16)),
        (torch.nn.Upsample(scale_factor=2, mode="bilinear"), torch.randn(1, 2, 3, 4)),
    ]
    for module, x in cases:
        model = ex.load(module.eval(), args=(x,))
        with torch.no_grad():
            expected = module(x)
        expected = expected[0] if isinstance(expected, tuple) else expected
        found = ex.interpret(model, {model.inputs[0].name: x.numpy()})[model.outputs[0].name]
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_control_flow_becomes_regions(torch: Any):
    class Chosen(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))

    model = ex.load(Chosen(), args=(torch.randn(3),))
    for sign in (1.0, -1.0):
        x = np.full(3, sign, np.float32)
        expected = np.sin(x) + 1 if sign > 0 else np.cos(x) * 2
        (found,) = ex.interpret(model, {"x": x}).values()
        np.testing.assert_allclose(found, expected, atol=1e-6)


# -- torch.compile ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fast(net: Any, torch: Any) -> Any:
    from explorer.session.torch_backend import explorer

    return torch.compile(net, backend=explorer)


def test_the_entry_point_names_the_backend():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    (entry,) = tomllib.loads(text)["project"]["entry-points"]["torch_dynamo_backends"].items()
    assert entry == ("explorer", "explorer.session.torch_backend:explorer")


def test_a_compiled_module_gives_what_eager_gives(fast: Any, net: Any, image: Any, torch: Any):
    with torch.no_grad():
        found, expected = fast(image), net(image)
        torch.testing.assert_close(found[0], expected[0])
        torch.testing.assert_close(found[1]["features"], expected[1]["features"])
        last = ex.last_compilation()
        assert last is not None
        conv = next(node for node in last.model.nodes if node.operator == "aten.conv2d")
        assert conv.name == "conv/conv2d"
        assert conv.places[-1].text == "y = torch.relu_(self.norm(self.conv(x))).mean((2, 3))"
        net.head.weight.mul_(2)
        torch.testing.assert_close(fast(image)[0], net(image)[0])
        assert ex.last_compilation() is not last


def test_what_has_no_form_stays_torch(torch: Any):
    from explorer.session.torch_backend import explorer

    def function(x):
        y = torch.relu(x) * 2
        return torch.sigmoid(torch.special.zeta(y + 2, y.T + 1)) + 1

    x = torch.randn(4, 4)
    with torch.no_grad(), pytest.warns(UserWarning, match="some nodes stay PyTorch's"):
        found = torch.compile(function, backend=explorer)(x)
    torch.testing.assert_close(found, function(x))


def test_results_of_a_node_that_stays_torch_go_on_one_by_one(torch: Any):
    """Both factors come as one tuple, and compiled parts take tensors."""

    def multiplied(x: Any) -> Any:
        factors, pivots = torch.linalg.ldl_factor(x @ x.mT)
        return factors * 2 @ (pivots + 1.0)

    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(multiplied, backend="explorer")
    with torch.no_grad(), pytest.warns(UserWarning, match="ldl_factor"):
        torch.testing.assert_close(compiled(x), multiplied(x), rtol=1e-4, atol=1e-4)


def test_complex_tensors_are_compiled(torch: Any, recwarn: pytest.WarningsRecorder):
    from explorer.session.torch_backend import explorer, last_compilation

    def function(z):
        return z.abs() + 1, torch.fft.fft(z.conj()) * 2j

    z = torch.randn(2, 6, dtype=torch.complex64)
    with torch.no_grad():
        found = torch.compile(function, backend=explorer)(z)
    torch.testing.assert_close(found, function(z))
    assert not [w for w in recwarn if "PyTorch's" in str(w.message)]
    compilation = last_compilation()
    assert compilation is not None
    assert compilation.model.inputs[0].shape == (2, 6, 2)


def test_gradients_are_torch_s(torch: Any):
    from explorer.session.torch_backend import explorer

    module = torch.nn.Linear(4, 3)
    x = torch.randn(2, 4)
    compiled = torch.compile(module, backend=explorer)
    with pytest.warns(UserWarning, match="its backward pass is PyTorch's"):
        compiled(x).square().sum().backward()
    found = module.weight.grad.clone()
    module.zero_grad()
    module(x).square().sum().backward()
    torch.testing.assert_close(found, module.weight.grad)


@pytest.mark.parametrize(("options", "expected"), [({}, 3), ({"threads": 2}, 2)])
def test_a_program_has_as_many_threads_as_torch_or_as_asked_for(
    options: dict[str, int], expected: int, torch: Any, monkeypatch: pytest.MonkeyPatch
):
    opened: list[Executable] = []
    open_program = Compilation.open

    def noting(self: Compilation, *args: Any, **kwargs: Any) -> Executable:
        opened.append(open_program(self, *args, **kwargs))
        return opened[-1]

    monkeypatch.setattr(Compilation, "open", noting)
    module, x = torch.nn.Linear(64, 48).eval(), torch.randn(32, 64)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        compiled = torch.compile(module, backend="explorer", options=options)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), module(x))
    finally:
        torch.set_num_threads(before)
    compilation, (executable,) = ex.last_compilation(), opened
    assert compilation is not None
    assert executable.profile(compilation.example_inputs()).threads == expected
