"""Placement: one function per device, with explicit transfers, even when there is one device.

   func @main(%x) { ... return %y }
=> func @main(%x) {device = "host"} {
       %t = top.transfer(%x) {to = "cpu"}
       %r = func.call @main_cpu(%t)
       %y = top.transfer(%r) {to = "host"}
       return %y
   }
   func @main_cpu(%x) {device = "cpu"} { ... }

What the device returns is always written by it: an output that is an input, or a view of one, is
copied, so that inputs and outputs never share memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, BlockArgument, Region, SSAValue

from explorer.ir.evaluation import entry_function
from explorer.ir.operation import TopOperation, set_identity
from explorer.ir.origins import location_of, origin_of, set_origins, sources_of
from explorer.ir.passes import EventLog, Pass
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.structure import DEVICE, value_name
from explorer.ir.top.data import ConvertLayoutOp, ReturnOp, TransferOp


@dataclass(frozen=True)
class PlaceOnDevice(Pass):
    """All operations go to one device; transfers bring the inputs there and the outputs back."""

    device: str

    name = "place-on-device"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        main = entry_function(rewriter.module)
        events = EventLog(self.name, rewriter)
        last = main.body.block.last_op
        assert isinstance(last, ReturnOp)
        explanation = f"the whole program runs on {self.device}"
        for index, output in enumerate(last.operands):
            if is_argument(output):
                with events.rewrite("copy-input", last, COPY_REASON):
                    copy_output(last, index, rewriter)
        with events.rewrite("outline", last, explanation):
            self._outline(main, last, rewriter)
        return events.rewrites

    def _outline(self, main: func.FuncOp, returned: ReturnOp, rewriter: RecordedRewriter) -> None:
        body = main.body
        inputs = [a.type for a in body.block.args]
        names = [value_name(a) for a in body.block.args]
        outputs = [o.type for o in returned.operands]
        origins = [origin_of(o) for o in returned.operands]
        output_sources = [value_name(o) for o in returned.operands]

        main.detach_region(body)
        device_name = f"main_{_identifier(self.device)}"
        outlined = func.FuncOp(device_name, (inputs, outputs), body)
        outlined.attributes[DEVICE] = StringAttr(self.device)
        block = Block(arg_types=inputs)
        transfers = []
        for argument, inner, name in zip(block.args, body.block.args, names, strict=True):
            argument.name_hint = name
            inner.name_hint = f"{name}.device"
            transfer = TransferOp.make([argument], to=self.device)
            set_identity(transfer, rewriter.names.fresh("send"))
            transfer.location = location_of([name])
            transfers.append(transfer)
        call = func.CallOp(device_name, [t.output for t in transfers], outputs)
        back = []
        for result, origin, source in zip(call.results, origins, output_sources, strict=True):
            transfer = TransferOp.make([result], to="host")
            set_identity(transfer, rewriter.names.fresh("receive"))
            set_origins(transfer, [origin])
            back.append(transfer)
            result.name_hint = f"{source}.device"
        block.add_ops([*transfers, call, *back, ReturnOp.make([[t.output for t in back]])])
        main.add_region(Region(block))
        main.attributes[DEVICE] = StringAttr("host")
        rewriter.module.body.block.add_op(outlined)
        for transfer in (*transfers, *back):
            rewriter.log.added.append(transfer)
        rewriter.has_changed = True


COPY_REASON = "an output that is an input gets memory of its own"


def is_argument(value: SSAValue) -> bool:
    """Whether a value is an argument of its function, or a view of one."""
    while isinstance(value.owner, TopOperation) and value.owner.is_view:
        value = value.owner.operands[0]
    return isinstance(value, BlockArgument)


def copy_output(returned: ReturnOp, index: int, rewriter: RecordedRewriter) -> None:
    """Returns a copy of an output in place of the value itself."""
    value = returned.operands[index]
    copy = ConvertLayoutOp.make([value], [value.type])
    set_origins(copy, [origin_of(value)])
    rewriter.insert_before(returned, copy, stem="copy", sources=_sources(value))
    rewriter.set_operand(returned, index, copy.output)


def _sources(value: SSAValue) -> tuple[str, ...]:
    if isinstance(value, BlockArgument):
        return (value_name(value),)
    assert isinstance(value.owner, TopOperation)
    return sources_of(value.owner)


def _identifier(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text)
