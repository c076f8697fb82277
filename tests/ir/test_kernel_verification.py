"""Verification of kernels: forms that were valid are known, places are looked at each time."""

import pytest
from xdsl.dialects import affine, arith, func
from xdsl.dialects.builtin import IndexType, StringAttr, f32, f64
from xdsl.ir import Operation
from xdsl.ir.core import ErasedSSAValue
from xdsl.utils.exceptions import VerifyException

from explorer.ir.dialects import kernel_verification
from explorer.ir.dialects.kernel_verification import KernelVerifier
from explorer.ir.inspection.printing import parse

KERNEL = """
func.func @kernel_1(%x: memref<8xf32>, %y: memref<8xf32>) attributes {kernel.kind = "plain"} {
  affine.for %i = 0 to 8 {
    %a = affine.load %x[%i] : memref<8xf32>
    %b = arith.addf %a, %a : f32
    %c = arith.addf %b, %b : f32
    affine.store %c, %y[%i] : memref<8xf32>
  }
  affine.for %j = 0 to 8 {
    %d = affine.load %y[%j] : memref<8xf32>
    affine.store %d, %x[%j] : memref<8xf32>
  }
  func.return
}
"""


@pytest.fixture
def kernel() -> func.FuncOp:
    (function,) = parse(KERNEL).ops
    assert isinstance(function, func.FuncOp)
    return function


@pytest.fixture
def added(monkeypatch) -> list[Operation]:
    """The additions whose own verifier ran."""
    seen: list[Operation] = []
    original = arith.AddfOp.verify_

    def verify(self) -> None:
        seen.append(self)
        original(self)

    monkeypatch.setattr(arith.AddfOp, "verify_", verify)
    return seen


def operations(kernel: func.FuncOp, kind: type) -> list:
    return [op for op in kernel.walk() if isinstance(op, kind)]


def test_a_form_is_verified_once(kernel, added):
    first, second = operations(kernel, arith.AddfOp)
    second.properties["fastmath"] = first.properties["fastmath"]
    verifier = KernelVerifier()
    verifier.verify(kernel)
    verifier.verify(kernel.clone())
    assert added == [first]


def test_another_type_is_another_form(kernel):
    verifier = KernelVerifier()
    verifier.verify(kernel)
    changed = kernel.clone()
    add = operations(changed, arith.AddfOp)[1]
    add.operands[1] = arith.ConstantOp.from_int_and_width(1, 32).result
    with pytest.raises(VerifyException):
        verifier.verify(changed)


def test_another_property_is_another_form(kernel):
    verifier = KernelVerifier()
    verifier.verify(kernel)
    changed = kernel.clone()
    operations(changed, affine.ForOp)[0].properties["step"] = StringAttr("one")
    with pytest.raises(VerifyException):
        verifier.verify(changed)


def test_a_loop_with_other_arguments_is_another_form(kernel):
    verifier = KernelVerifier()
    verifier.verify(kernel)
    changed = kernel.clone()
    operations(changed, affine.ForOp)[0].body.block.insert_arg(IndexType(), 1)
    with pytest.raises(VerifyException, match="BlockArguments"):
        verifier.verify(changed)


def test_a_loop_that_lost_its_end_is_found_though_its_form_is_known(kernel):
    verifier = KernelVerifier()
    verifier.verify(kernel)
    changed = kernel.clone()
    block = operations(changed, affine.ForOp)[0].body.block
    block.erase_op(block.last_op)
    with pytest.raises(VerifyException, match="terminat"):
        verifier.verify(changed)


def test_an_end_in_the_middle_is_found_though_its_form_is_known(kernel):
    verifier = KernelVerifier()
    verifier.verify(kernel)
    changed = kernel.clone()
    block = operations(changed, affine.ForOp)[0].body.block
    block.insert_op_before(affine.YieldOp.get(), block.first_op)
    with pytest.raises(VerifyException, match="must be the last"):
        verifier.verify(changed)


def test_an_empty_loop_is_found(kernel):
    loop = operations(kernel, affine.ForOp)[0]
    for op in reversed(list(loop.body.block.ops)):
        loop.body.block.erase_op(op)
    with pytest.raises(VerifyException, match="empty block"):
        KernelVerifier().verify(kernel)


def test_an_erased_operand_is_found_though_its_form_is_known(kernel):
    verifier = KernelVerifier()
    verifier.verify(kernel)
    store = operations(kernel, affine.StoreOp)[1]
    store.operands[0] = ErasedSSAValue(f32, store.operands[0])
    with pytest.raises(ValueError, match="Erased"):
        verifier.verify(kernel)


@pytest.mark.parametrize("use", [0, 1])
def test_a_value_of_another_kernel_is_found_though_its_form_is_known(kernel, use):
    verifier = KernelVerifier()
    verifier.verify(kernel)
    other = kernel.clone()
    operations(kernel, arith.AddfOp)[1].operands[use] = operations(other, arith.AddfOp)[0].result
    verifier.verify(other)
    with pytest.raises(VerifyException, match="addf uses a value that its kernel defines nowhere"):
        verifier.verify(kernel)


def test_the_function_itself_is_verified(kernel):
    verifier = KernelVerifier()
    verifier.verify(kernel)
    kernel.body.block.insert_arg(f64, 0)
    with pytest.raises(VerifyException, match="entry block"):
        verifier.verify(kernel)


def test_a_name_that_the_function_lost_is_found(kernel):
    verifier = KernelVerifier()
    verifier.verify(kernel)
    del kernel.properties["sym_name"]
    with pytest.raises(VerifyException, match="sym_name"):
        verifier.verify(kernel)


def test_forms_that_became_too_many_are_verified_again(kernel, added, monkeypatch):
    monkeypatch.setattr(kernel_verification, "MAX_FORMS", 1)
    verifier = KernelVerifier()
    verifier.verify(kernel)
    first = len(added)
    verifier.verify(kernel)
    assert len(added) == 2 * first
