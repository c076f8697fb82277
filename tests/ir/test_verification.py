"""Verification after passes: what changed is verified again, what is gone is forgotten."""

import pytest
from xdsl.utils.exceptions import VerifyException

from explorer.ir.inspection.printing import parse
from explorer.ir.operation import TopOperation
from explorer.ir.structure import operations
from explorer.ir.top.elementwise import UnaryOp
from explorer.ir.verification import Verifier

TWO = """
func.func @main(%x: tensor<4xf32>, %z: tensor<5xf32>) -> tensor<4xf32> {
  %a = top.unary(%x) {kind = "relu"} : tensor<4xf32>
  %y = top.unary(%a) {kind = "abs"} : tensor<4xf32>
  top.return(%y)
}
func.func @kernel_1(%x: memref<4xf32>) attributes {kernel.kind = "plain"} {
  func.return
}
"""


@pytest.fixture
def verified(monkeypatch) -> list[str]:
    """Identities of the operations whose verifier ran, in order."""
    seen: list[str] = []
    original = UnaryOp.verify_

    def verify(self: TopOperation) -> None:
        seen.append(self.output.name_hint or "")
        original(self)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(UnaryOp, "verify_", verify)
    return seen


def named(module, name: str) -> UnaryOp:
    (found,) = [
        o for o in operations(module) if isinstance(o, UnaryOp) and o.output.name_hint == name
    ]
    return found


def test_only_what_changed_is_verified_again(verified):
    module, verifier = parse(TWO), Verifier()
    verified.clear()
    verifier.verify(module)
    assert verified == ["a", "y"]
    verifier.verify(module)
    assert verified == ["a", "y"]
    named(module, "y").properties["kind"] = named(module, "a").properties["kind"]
    verifier.verify(module)
    assert verified == ["a", "y", "y"]


def test_what_is_wrong_after_a_change_is_found():
    module, verifier = parse(TWO), Verifier()
    verifier.verify(module)
    op = named(module, "a")
    op.properties.pop("kind")
    with pytest.raises(VerifyException, match="property 'kind' expected"):
        verifier.verify(module)


def test_an_operand_of_another_type_is_found():
    module, verifier = parse(TWO), Verifier()
    verifier.verify(module)
    (function, _) = module.ops
    named(module, "y").operands[0] = function.body.block.args[1]
    with pytest.raises(VerifyException, match=r"results are 4 f32, but .* give 5 f32"):
        verifier.verify(module)


def test_a_function_that_lost_its_return_is_found():
    module, verifier = parse(TWO), Verifier()
    verifier.verify(module)
    block = module.body.block.first_op.body.block
    block.erase_op(block.last_op)
    with pytest.raises(VerifyException, match="terminat"):
        verifier.verify(module)


def test_a_new_kernel_is_verified():
    module, verifier = parse(TWO), Verifier()
    verifier.verify(module)
    (_, kernel) = module.ops
    other = kernel.clone()
    module.body.block.insert_op_before(other, kernel)
    module.body.block.erase_op(kernel)
    other.body.block.erase_op(other.body.block.last_op)
    with pytest.raises(VerifyException, match="empty block"):
        verifier.verify(module)
