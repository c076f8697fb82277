"""Functions and modules that write into their inputs and buffers, as PyTorch's users do.

Each takes a matrix of 3x3 and a vector of 3; eager PyTorch says what it leaves of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")
nn = torch.nn

WRITERS: list[Any] = []


def writer(function: Any) -> Any:
    WRITERS.append(function)
    return function


def expression(name: str) -> Callable[[Callable[..., Any]], None]:
    def add(function: Callable[..., Any]) -> None:
        function.__name__ = function.__qualname__ = name
        WRITERS.append(function)

    return add


# -- in-place operators ----------------------------------------------------------------------------
expression("add")(lambda x, v: (x.add_(v), x * 2)[1])
expression("clamp")(lambda x, v: x.clamp_(min=-1, max=1).abs().sum() + v)
expression("square root")(lambda x, v: x.abs_().sqrt_() + v)
expression("running sum")(lambda x, v: x.cumsum_(1) * v)
expression("interpolation")(lambda x, v: x.lerp_(v.expand(3, 3), 0.25))
expression("products")(lambda x, v: x.addcmul_(v, v, value=0.5).addcdiv_(v, v + 5))
expression("negation of truth")(lambda x, v: x.logical_not_() + v)
expression("rectifier")(lambda x, v: (torch.nn.functional.relu(x, inplace=True), x + v)[1])
expression("diagonal fill")(lambda x, v: x.fill_diagonal_(7.0) @ v)
expression("mask of infinities")(lambda x, v: (x.masked_fill_(x > 0, float("inf")), v * 1)[1])
expression("output argument")(lambda x, v: torch.add(x, v, out=x).sum())
expression("row sum")(lambda x, v: x.index_add_(0, torch.tensor([2, 0, 2]), v.expand(3, 3)))
expression("columns")(lambda x, v: x.index_copy_(1, torch.tensor([2, 0]), v[:2].expand(3, 2)))
expression("scatter")(lambda x, v: x.scatter_(1, torch.tensor([[0], [2], [1]]), v.reshape(3, 1))[0])
expression("scattered sum")(
    lambda x, v: x.scatter_add_(0, torch.tensor([[0, 1, 2], [0, 0, 1]]), v.expand(2, 3))
)
expression("scattered maximum")(
    lambda x, v: x.scatter_reduce_(
        1, torch.tensor([[0, 0], [1, 1], [2, 2]]), v[:2].expand(3, 2), "amax"
    )
)
expression("sum at places")(
    lambda x, v: x.index_put_((torch.tensor([0, 2, 0]),), v.expand(3, 3), accumulate=True).mean()
)


# -- views -----------------------------------------------------------------------------------------
@writer
def flat_view(x: Any, v: Any) -> Any:
    x.view(-1)[2:5] = v
    return x.sum(1)


@writer
def every_second_row(x: Any, v: Any) -> Any:
    x[::2] = x[::2] * v
    return x


@writer
def narrowed(x: Any, v: Any) -> Any:
    x.narrow(1, 1, 2).zero_()
    return x + v


@writer
def selected(x: Any, v: Any) -> Any:
    x.select(0, 1).copy_(v)
    return x.max()


@writer
def rows_apart(x: Any, v: Any) -> Any:
    a, b, c = x.unbind(0)
    b.add_(a)
    c.mul_(v)
    return a


@writer
def chunks(x: Any, v: Any) -> Any:
    for number, part in enumerate(x.chunk(3, 1)):
        part.add_(number)
    return x * v


@writer
def diagonal(x: Any, v: Any) -> Any:
    x.diagonal().copy_(v)
    return x.trace()


@writer
def swapped_rows(x: Any, v: Any) -> Any:
    x[[0, 1]] = x[[1, 0]]
    return x * v


@writer
def shifted_rows(x: Any, v: Any) -> Any:
    x[:-1] = x[1:].clone()
    x[-1] = v
    return x.sum()


@writer
def detached(x: Any, v: Any) -> Any:
    x.detach().add_(1)
    return x * v


@writer
def larger_of_both(x: Any, v: Any) -> Any:
    x.copy_(torch.where(x > v, x, v))
    return x.min()


@writer
def through_a_temporary(x: Any, v: Any) -> Any:
    y = torch.empty_like(x)
    torch.mul(x, v, out=y)
    x.sub_(y)
    return y


@writer
def transposed_result(x: Any, v: Any) -> Any:
    x.add_(1)
    return x.t()


@writer
def returned_itself(x: Any, v: Any) -> Any:
    x.mul_(v)
    return x


@writer
def element_by_element(x: Any, v: Any) -> Any:
    for place in range(3):
        x[place, place] = v[place]
    return [x.sum(), {"first": x[0] + 0}]


# -- buffers ---------------------------------------------------------------------------------------
class Buffers(nn.Module):
    def __init__(self, **buffers: Any) -> None:
        super().__init__()
        for name, value in buffers.items():
            self.register_buffer(name, value)


@writer
class Average(Buffers):
    def __init__(self) -> None:
        super().__init__(mean=torch.ones(3, 3))

    def forward(self, x: Any, v: Any) -> Any:
        self.mean.mul_(0.9).add_(x, alpha=0.1)
        return x - self.mean + v


@writer
class CacheAtANumber(Buffers):
    def __init__(self) -> None:
        super().__init__(keys=torch.zeros(1, 2, 8, 3), place=torch.zeros((), dtype=torch.int64))

    def forward(self, x: Any, v: Any) -> Any:
        self.keys[:, :, self.place] = v
        self.place += 1
        seen = torch.arange(8) < self.place
        scores = (x[None, :1] @ self.keys.transpose(2, 3)).masked_fill(~seen, -1e9)
        return torch.softmax(scores, -1) @ self.keys


@writer
class CacheAtIndices(Buffers):
    def __init__(self) -> None:
        super().__init__(keys=torch.zeros(1, 2, 8, 3))

    def forward(self, x: Any, v: Any) -> Any:
        place = (x[0, 0].abs() * 0).long().view(1) + 1
        self.keys.index_copy_(2, place, v.view(1, 1, 1, 3).expand(1, 2, 1, 3))
        return self.keys.sum(-1)


@writer
class GatedCell(Buffers):
    def __init__(self) -> None:
        super().__init__(h=torch.zeros(3, 4))
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x: Any, v: Any) -> Any:
        self.h = self.cell(x * v * 1e-3, self.h)
        return self.h.sum(1)


@writer
class LongCell(Buffers):
    def __init__(self) -> None:
        super().__init__(h=torch.zeros(3, 4), c=torch.zeros(3, 4))
        self.cell = nn.LSTMCell(3, 4)

    def forward(self, x: Any, v: Any) -> Any:
        h, c = self.cell(x * v * 1e-3, (self.h, self.c))
        self.h.copy_(h)
        self.c.copy_(c)
        return h * 1


@writer
class WrittenParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Any, v: Any) -> Any:
        self.weight.data.add_(v)
        return x * self.weight


@writer
class Counters(Buffers):
    def __init__(self) -> None:
        super().__init__(
            calls=torch.zeros(2, dtype=torch.int32), seen=torch.zeros(3, dtype=torch.bool)
        )

    def forward(self, x: Any, v: Any) -> Any:
        self.calls[0] += 1
        self.seen |= v > 0
        return x * self.calls[0] + self.seen


@writer
class BuffersOfOneMemory(Buffers):
    def __init__(self) -> None:
        whole = torch.zeros(4, 3)
        super().__init__(whole=whole, tail=whole[2:])

    def forward(self, x: Any, v: Any) -> Any:
        self.tail.add_(v)
        return self.whole.sum(0) + x


@writer
class HalfTypes(Buffers):
    def __init__(self) -> None:
        super().__init__(
            short=torch.zeros(3, 3, dtype=torch.float16), brain=torch.zeros(3, dtype=torch.bfloat16)
        )

    def forward(self, x: Any, v: Any) -> Any:
        self.short.add_(x.half() * 0.5)
        self.brain.copy_(v * 2 + self.brain)
        return self.short.float() + self.brain.float()


@writer
class NumberOfPython(Buffers):
    def __init__(self) -> None:
        super().__init__(kept=torch.zeros(3))
        self.calls = 0

    def forward(self, x: Any, v: Any) -> Any:
        self.calls += 1
        self.kept[self.calls % 3] = self.calls
        return x + self.kept * v


@writer
class PastThatGrows(nn.Module):
    past: Any = None

    def forward(self, x: Any, v: Any) -> Any:
        new = v.view(1, 3)
        self.past = new * 1 if self.past is None else torch.cat([self.past, new])
        return self.past.sum(0) + x


@writer
class ComplexSum(Buffers):
    def __init__(self) -> None:
        super().__init__(total=torch.zeros(3, dtype=torch.complex64))

    def forward(self, x: Any, v: Any) -> Any:
        self.total += torch.complex(v, x[0])
        return self.total.real
