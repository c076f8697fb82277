"""`python -m explorer.packaging.wasm PROGRAM`: runs a WASI program with PyPI's `wasmtime`.

The program sees the folder in which it is started; its status is this process's.
"""

from __future__ import annotations

import sys


def main(path: str) -> int:
    """The status with which the program ends."""
    import wasmtime  # pyright: ignore[reportMissingImports]

    engine = wasmtime.Engine()
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    settings = wasmtime.WasiConfig()
    settings.argv = ("selftest",)
    settings.inherit_stdout()
    settings.inherit_stderr()
    settings.preopen_dir(".", ".")
    store = wasmtime.Store(engine)
    store.set_wasi(settings)
    module = wasmtime.Module.from_file(engine, path)
    instance = linker.instantiate(store, module)
    try:
        instance.exports(store)["_start"](store)
    except wasmtime.ExitTrap as end:
        return end.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
