"""Examples of operators that onnx tests with no single node."""

import pytest

from verification.operators.drawing import INNER, NotPossible, draw
from verification.operators.examples import examples
from verification.operators.pairs import Pair, pairs

EXAMPLES = examples()


@pytest.mark.parametrize("operator", EXAMPLES)
def test_every_type_but_labels_is_drawn(operator: str):
    of_it = [pair for pair in pairs() if pair.operator == operator]
    assert of_it
    for pair in of_it:
        try:
            case = draw(pair, 1, EXAMPLES[operator])
        except NotPossible:
            assert operator.endswith("Classifier") and pair.element_type == "string"
        else:
            assert operator in [node.op_type for node in case.model.graph.node]


@pytest.mark.parametrize("dtype", INNER[:2])
def test_branches_take_a_type_that_numpy_lacks_from_its_cast(dtype: str):
    case = draw(Pair("If", dtype), 2, EXAMPLES["If"])
    cast, branch = case.model.graph.node[0], case.model.graph.node[1]
    assert cast.op_type == "Cast" and branch.op_type == "If"
    for attribute in branch.attribute:
        assert attribute.g.node[0].input[0] == cast.output[0]
