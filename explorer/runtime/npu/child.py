"""Runs the simulator's native code in a process of its own: a fault or a hang ends that only.

It is started by its path, without site-packages, so that it begins at once: the library's path, the
descriptor of the shared block and its size are its arguments.
"""

import ctypes
import mmap
import sys


def main() -> None:
    library, descriptor, size_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    memory = mmap.mmap(descriptor, size_bytes)
    simulate = ctypes.CDLL(library).simulate
    simulate.restype = ctypes.c_int64
    simulate.argtypes = [ctypes.c_void_p]
    simulate(ctypes.addressof(ctypes.c_char.from_buffer(memory)))


if __name__ == "__main__":
    main()
