"""Programs with one bit of a field flipped, and what notices it."""

from explorer.errors import InputError
from explorer.runtime.npu import simulate
from explorer.targets.npu.checking import check_program
from explorer.targets.npu.encoding import cached_formats, decode
from explorer.targets.npu.instructions import Multiply, Requantize, RowLoop, Transfer, Vector

PADS = ("y_pad_before", "y_pad_after", "x_pad_before", "x_pad_after")


def is_idle(op, name):
    """Whether a field means nothing in an instruction, by the definition of that."""
    if isinstance(op, Transfer):
        is_padded = any(getattr(op, pad) for pad in PADS)
        return (
            (name == "x_stride" and op.y_size == 1)
            or (name == "x_step" and op.x_size == 1)
            or (name == "pad_value" and not is_padded)
        )
    if name.endswith(("_outer", "_inner")) and getattr(op, name.rpartition("_")[2]) == 1:
        return True
    if isinstance(op, Vector):
        return name.startswith("source") if op.use_immediate else name == "immediate"
    if isinstance(op, RowLoop):
        return name == "step" and op.count == 1
    if isinstance(op, Multiply):
        is_read = not (op.reset and name.startswith(("source", "weight")))
        return not is_read or (name.endswith("_step") and op.batch == 1)
    return isinstance(op, Requantize) and op.wide and name in ("offset", "low", "high")


def is_behind(op, name):
    """Whether a field of a load pads behind the last row: where nobody reads, nobody notices."""
    return name == "y_pad_after" or (name == "x_pad_after" and op.y_size == 1)


def flipped(program, machine, number, field, bit):
    """The program's bytes with one bit of a field of an instruction changed."""
    at = (number * cached_formats(machine).size_bytes + field.word * 8) * 8 + field.shift + bit
    changed = bytearray(program)
    changed[at // 8] ^= 1 << at % 8
    return bytes(changed)


def noticed_by(program, memory, machine, right):
    """The decoder, a kind of check, the simulator, the image, the cycles; empty where nothing.

    `right`: what the program simulates as where nothing is flipped.
    """
    try:
        decode(program, machine)
    except InputError:
        return "decoder"
    if found := check_program(program, memory, machine):
        return found[0].kind
    try:
        other = simulate(program, memory, machine)
    except InputError:
        return "simulator"
    if other.image != right.image:
        return "image"
    return "" if other == right else "cycles"
