"""Which calls give a tensor that shares its storage with an operand: writes into one change both.

    view_of(Call("aten.select.int", {"self": x, ...}), types)     "self"
    view_of(Call("aten.relu", ...), types)                        None

Some share only where the numbers lie right for it, which the strides in the file say.
Source: torch.Tensor's documentation of views, and ATen's TensorUtils (`computeStride`).
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.importers.pytorch.file.program import Call, Ref, ValueType, Word

VIEWS = frozenset(
    f"aten.{name}"
    for name in [
        "alias",
        "as_strided",
        "chunk",
        "detach",
        "detach_",
        "diagonal",
        "expand",
        "expand_as",
        "lift_fresh",
        "movedim.int",
        "movedim.intlist",
        "moveaxis.int",
        "narrow",
        "narrow.Tensor",
        "numpy_T",
        "permute",
        "requires_grad_",
        "select.int",
        "slice.Tensor",
        "split",
        "split.Tensor",
        "split.sizes",
        "split_with_sizes",
        "squeeze",
        "squeeze.dim",
        "squeeze.dims",
        "swapaxes",
        "swapdims",
        "t",
        "tensor_split.sections",
        "tensor_split.indices",
        "transpose.int",
        "unbind.int",
        "unflatten.int",
        "unfold",
        "unsqueeze",
        "view",
        "view_as",
        "_unsafe_view",
        "adjoint",
        "mT",
        "mH",
        "positive",
        "real",
        "imag",
        "conj",
        "_conj",
        "_neg_view",
        "view_as_real",
        "view_as_complex",
    ]
)
"""Always views."""
_RESHAPES = ("aten.reshape", "aten.flatten.using_ints", "aten.reshape_as", "aten.ravel")
_DROPOUTS = ("aten.dropout", "aten.feature_dropout", "aten.alpha_dropout")


class Unclear(Exception):
    """Whether the result shares storage depends on sizes that are not known."""


def view_of(call: Call, types: Mapping[str, ValueType]) -> str | None:
    """The parameter whose storage the results share; None where they have their own.

    Raises `Unclear` where the file does not decide it.
    """
    parameter = next((name for name in ("self", "input") if name in call.arguments), "")
    operand = call.arguments.get(parameter)
    if not isinstance(operand, Ref):
        return None
    if call.target in VIEWS:
        return parameter
    if call.target in _DROPOUTS:
        is_off = call.arguments.get("train") is False or call.arguments.get("p") == 0
        return parameter if is_off else None
    known = types.get(operand.name)
    made = types.get(call.results[0]) if call.results else None
    if known is None or made is None:
        return None
    if call.target.startswith("aten.to.") or call.target in ("aten.type_as",):
        return None if _is_copied(call, known, made) else parameter
    if call.target == "aten.contiguous":
        others = [a for a in call.arguments.values() if isinstance(a, Word)]
        is_plain = all(word.text == "memory_format=1" for word in others)
        return parameter if is_plain and _is_contiguous(known) else None
    if call.target in _RESHAPES:
        return parameter if _is_view(known, made) else None
    return None


def _is_copied(call: Call, known: ValueType, made: ValueType) -> bool:
    formats = [a.text for a in call.arguments.values() if isinstance(a, Word)]
    changes_format = any(
        text.startswith("memory_format=") and text != "memory_format=4" for text in formats
    )
    is_asked = call.arguments.get("copy") is True
    return is_asked or changes_format or known.element_type != made.element_type


def _is_contiguous(kind: ValueType) -> bool:
    sizes, strides = kind.sizes, kind.strides
    step: int | None = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size == 1:
            continue
        if step is None:
            if isinstance(stride, int):
                return False  # a step that depends on sizes was expected
            continue
        if stride != step:
            return False
        step = step * size if isinstance(size, int) else None
    return True


def _is_view(known: ValueType, made: ValueType) -> bool:
    """Whether a reshape needs no copy."""
    if _is_contiguous(known):
        return True
    sizes, strides = _numbers(known.sizes), _numbers(known.strides)
    target = _numbers(made.sizes)
    if sizes is None or strides is None or target is None:
        raise Unclear
    if 0 in sizes:
        return True
    # Axes of the operand that lie behind one another become any axes with as many elements.
    position, chunk, base = len(target) - 1, 1, strides[-1] if strides else 1
    for axis in reversed(range(len(sizes))):
        chunk *= sizes[axis]
        if axis and (sizes[axis - 1] == 1 or strides[axis - 1] == chunk * base):
            continue
        covered = 1
        while position >= 0 and (covered < chunk or target[position] == 1):
            covered *= target[position]
            position -= 1
        if covered != chunk:
            return False
        chunk, base = 1, strides[axis - 1]
    return position == -1


def _numbers(values: tuple[object, ...]) -> list[int] | None:
    numbers = [value for value in values if isinstance(value, int)]
    return numbers if len(numbers) == len(values) else None
