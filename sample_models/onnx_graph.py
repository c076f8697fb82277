"""Write an ONNX graph node by node, with every name chosen here.

`torch.onnx` folds and renames while it exports. These models are read by people who want to see
what a compiler does to them, so the graph is written by hand instead, and keeps everything that
is there before any optimization:

    Conv -> BatchNormalization -> Relu      and not      Conv (with the others folded in)

Names follow the PyTorch module that a node comes from. The module `stage1.block0.conv1` becomes

    node         /stage1/block0/conv1
    its result   /stage1/block0/conv1_output
    initializer  stage1.block0.conv1.weight
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import nn

OPSET_VERSION = 17  # the first with LayerNormalization
IR_VERSION = 8  # the ONNX file format that came with opset 17

Attribute: TypeAlias = int | float | Sequence[int]


class OnnxGraph:
    """A graph under construction; values are known by their names."""

    def __init__(self, network: nn.Module) -> None:
        self._names = {module: name for name, module in network.named_modules()}
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        module: nn.Module,
        part: str = "",
        **attributes: Attribute,
    ) -> str:
        """Append a node and return the name of its result.

        A module that becomes several nodes tells them apart by `part`.
        """
        name = "/" + self._qualified_name(module, part).replace(".", "/")
        result = f"{name}_output"
        node = helper.make_node(operator, inputs, [result], name=name)
        node.attribute.extend(helper.make_attribute(*item) for item in attributes.items())
        self._nodes.append(node)
        return result

    def initializer(self, array: npt.ArrayLike, module: nn.Module, part: str) -> str:
        """Add a constant that belongs to `module` and return its name; a number has rank 0."""
        name = self._qualified_name(module, part)
        self._initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def parameter(self, module: nn.Module, part: str) -> str:
        """Add the tensor `module.part` (a weight, a bias, a running mean) and return its name."""
        return self.initializer(getattr(module, part).detach().numpy(), module, part)

    def to_model(
        self,
        name: str,
        description: str,
        input_shape: Sequence[int | str],
        output_shape: Sequence[int | str],
    ) -> onnx.ModelProto:
        """Return the checked model: `image` goes in, the last node's result is `logits`.

        The inferred shape of every value is in it. Raises ONNX's own error where the graph is
        malformed or shapes contradict each other.
        """
        self._nodes[-1].output[0] = "logits"
        graph = helper.make_graph(
            self._nodes,
            name,
            inputs=[helper.make_tensor_value_info("image", TensorProto.FLOAT, input_shape)],
            outputs=[helper.make_tensor_value_info("logits", TensorProto.FLOAT, output_shape)],
            initializer=self._initializers,
            doc_string=description,
        )
        model = helper.make_model(
            graph,
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET_VERSION)],
            producer_name="sample_models/train.py",
        )
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        onnx.checker.check_model(model, full_check=True)
        return model

    def _qualified_name(self, module: nn.Module, part: str) -> str:
        return ".".join(piece for piece in (self._names[module], part) if piece)
