"""The members of a `.pt2` archive, which is a zip file that nothing compressed, mapped into memory.

    archive = Archive(Path("net.pt2"))
    archive.json("models/model.json")           parsed, within bounds
    archive.view("data/weights/weight_0")       bytes where they lie in the file, not a copy

Members lie below one folder, whose name is the program's. Nothing is ever unpacked to a file, and a
compressed member is refused, so that a small file cannot claim more memory than it has bytes.
"""

from __future__ import annotations

import json
import mmap
import struct
import zipfile
from pathlib import Path
from typing import Any

from explorer.errors import ModelError
from explorer.importers.pytorch.file.fields import DAMAGED, EXPORT_AGAIN, checked

MODEL = "models/model.json"
MAX_JSON_BYTES = 512 << 20
"""Of the graph: a program of 100,000 nodes has about 100 MB."""
MAX_MEMBERS = 200_000
_LOCAL_HEADER_BYTES = 30


class Archive:
    """A mapped archive; it stays mapped for as long as a view of it is in use."""

    def __init__(self, path: Path) -> None:
        """ModelError for what is no archive of torch.export."""
        if not zipfile.is_zipfile(path):
            _refuse(["data.pkl"])  # older files of torch.save are nothing but a pickle
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise ModelError(f"an archive of {len(members):,} members", hint=EXPORT_AGAIN)
            self._content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        models = [m.filename for m in members if m.filename.endswith(f"/{MODEL}")]
        if not models:
            _refuse([member.filename for member in members])
        folder = models[0].removesuffix(MODEL)
        self._members = {
            member.filename.removeprefix(folder): member
            for member in members
            if member.filename.startswith(folder)
        }

    def has(self, name: str) -> bool:
        return name in self._members

    def json(self, name: str) -> dict[str, Any]:  # Any: JSON
        """The object in a member. ModelError for what is none."""
        content = self.view(name)
        if len(content) > MAX_JSON_BYTES:
            raise ModelError(
                f"{name} has {len(content):,} bytes; at most {MAX_JSON_BYTES:,} are read",
                hint="the file may be damaged",
            )
        try:
            found = json.loads(bytes(content))
        except RecursionError as error:
            raise ModelError(f"{name} is nested too deep", hint=DAMAGED) from error
        except ValueError as error:
            raise ModelError(f"{name} is no JSON: {error}", hint=DAMAGED) from error
        return checked(found, dict, name)

    def view(self, name: str) -> memoryview:
        """A member's bytes. ModelError where there is none, or it is not stored as it is."""
        member = self._members.get(name)
        if member is None:
            raise ModelError(
                f"{name!r} is not in the archive",
                hint="its parts were renamed, lie outside of it, or are missing; " + EXPORT_AGAIN,
            )
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise ModelError(
                f"{name!r} is compressed or encrypted, which torch.export.save never does",
                hint=EXPORT_AGAIN,
            )
        at = member.header_offset
        header = bytes(self._content[at : at + _LOCAL_HEADER_BYTES])
        # Source: APPNOTE.TXT of the zip format, section 4.3.7.
        if len(header) < _LOCAL_HEADER_BYTES or header[:4] != b"PK\x03\x04":
            raise ModelError(f"{name!r} does not begin where the archive says")
        name_bytes, extra_bytes = struct.unpack("<HH", header[26:30])
        begin = at + _LOCAL_HEADER_BYTES + name_bytes + extra_bytes
        if begin + member.file_size > len(self._content):
            raise ModelError(f"{name!r} reaches {member.file_size:,} bytes beyond the file's end")
        return self._content[begin : begin + member.file_size]


def _refuse(members: list[str]) -> None:
    names = {name.rsplit("/", 1)[-1] for name in members}
    if names & {"data.pkl", "constants.pkl"}:
        raise ModelError(
            "a pickle of PyTorch (torch.save, TorchScript): reading it would run what is in it",
            hint="load it where you trust it, and export it again:\n"
            "    program = torch.export.export(module.eval(), (example,))\n"
            "    torch.export.save(program, 'net.pt2')",
        )
    if names & {"serialized_exported_program.json", "serialized_exported_program"}:
        raise ModelError(
            "an archive of torch.export before 2.6, whose weights are pickled", hint=EXPORT_AGAIN
        )
    raise ModelError(f"there is no {MODEL} in it", hint=EXPORT_AGAIN)
