"""Apache VTA's own functional simulator, built from its sources where they are at hand.

Three C++ files of apache/tvm-vta (`sim_driver.cc`, `sim_tlpp.cc`, `virtual_memory.cc`) and its
headers are compiled with stand-ins for the two headers of TVM and dmlc that they include, and a
main program that runs a stream on an image of memory. Its pages begin at address 4096: the first
4096 bytes of an image are nowhere there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
FIRST_BYTE = 4096
SOURCES = ("src/sim/sim_driver.cc", "src/sim/sim_tlpp.cc", "src/vmem/virtual_memory.cc")

LOGGING = """
#pragma once
#include <cstdlib>
#include <iostream>
struct Fatal {
  ~Fatal() { std::cerr << std::endl; std::abort(); }
  template <typename T> Fatal& operator<<(const T& value) { std::cerr << value; return *this; }
};
#define LOG(level) Fatal()
#define CHECK(x) if (!(x)) Fatal() << "check failed: " #x " "
#define CHECK_EQ(x, y) CHECK((x) == (y))
#define CHECK_NE(x, y) CHECK((x) != (y))
#define CHECK_LT(x, y) CHECK((uint64_t)(x) < (uint64_t)(y))
#define CHECK_LE(x, y) CHECK((uint64_t)(x) <= (uint64_t)(y))
"""
REGISTRY = """
#pragma once
#include <dmlc/logging.h>
#include <string>
namespace tvm { namespace runtime {
struct Argument { operator int64_t() const { return 0; } };
struct TVMArgs { Argument operator[](int) const { return {}; } };
struct TVMRetValue { template <typename T> void operator=(const T&) {} };
struct Registered { template <typename T> Registered& set_body(T) { return *this; } };
}}
#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)
#define TVM_REGISTER_GLOBAL(name) \\
  static auto JOINED(registered_, __COUNTER__) = ::tvm::runtime::Registered()
"""
MAIN = """
#include <vta/driver.h>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>
static std::vector<char> read(const char* name) {
  std::ifstream file(name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
int main(int, char** arguments) {
  std::vector<char> program = read(arguments[1]), image = read(arguments[2]);
  char* data = static_cast<char*>(VTAMemAlloc(image.size(), 0));
  if (VTAMemGetPhyAddr(data) != 4096) return 3;
  memcpy(data, image.data() + 4096, image.size() - 4096);
  void* code = VTAMemAlloc(program.size(), 0);
  memcpy(code, program.data(), program.size());
  VTADeviceRun(VTADeviceAlloc(), VTAMemGetPhyAddr(code), program.size() / 16, 1000);
  memcpy(image.data() + 4096, data, image.size() - 4096);
  std::ofstream(arguments[3], std::ios::binary).write(image.data(), image.size());
}
"""


def sources() -> Path:
    """The folder of VTA's sources: EXPLORER_VTA, relative to the repository."""
    return (REPOSITORY / os.environ.get("EXPLORER_VTA", "../shared/peers/vta")).resolve()


def reason_to_skip() -> str:
    """Why it cannot be built here; empty where it can."""
    missing = [name for name in SOURCES if not (sources() / name).exists()]
    if missing:
        return f"VTA's sources are not at {sources()} (EXPLORER_VTA names their folder)"
    return "" if shutil.which("g++") else "there is no g++ for VTA's C++"


def build(folder: Path, block: int) -> Path:
    """The simulator of VTA's default configuration with an array of block x block."""
    for name, text in (("dmlc/logging.h", LOGGING), ("tvm/runtime/registry.h", REGISTRY)):
        path = folder / "stubs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "main.cc").write_text(MAIN)
    log_block = block.bit_length() - 1
    sizes = {
        "INP_WIDTH": 3, "WGT_WIDTH": 3, "ACC_WIDTH": 5, "OUT_WIDTH": 3, "BATCH": 0,
        "BLOCK_IN": log_block, "BLOCK_OUT": log_block, "UOP_BUFF_SIZE": 15, "INP_BUFF_SIZE": 15,
        "WGT_BUFF_SIZE": 18, "ACC_BUFF_SIZE": 17, "OUT_BUFF_SIZE": 15, "BUS_WIDTH": 6,
    }  # fmt: skip
    program = folder / f"vta-{block}"
    command = [
        "g++",
        "-std=c++14",
        "-O1",
        "-w",
        f"-I{folder / 'stubs'}",
        f"-I{sources() / 'include'}",
    ]
    command += [f"-DVTA_LOG_{name}={value}" for name, value in sizes.items()]
    command += [str(sources() / name) for name in SOURCES]
    subprocess.run(
        [*command, str(folder / "main.cc"), "-lpthread", "-o", str(program)],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    return program


def run(simulator: Path, program: bytes, image: bytes, folder: Path) -> bytes:
    """The image behind the program."""
    names = [folder / name for name in ("program.bin", "image.bin", "result.bin")]
    names[0].write_bytes(program)
    names[1].write_bytes(image)
    subprocess.run([simulator, *names], check=True, capture_output=True, timeout=60)
    return names[2].read_bytes()
