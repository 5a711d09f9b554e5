#!/usr/bin/env python3
"""Compiles the kernels (CUDA C) to PTX text with NVRTC 12.2, through its C interface.

usage: compile_ptx.py NVRTC_LIBRARY SOURCE_FOLDER OUTPUT_FOLDER

NAME.cu becomes NAME.sm_70.ptx; NAME.sm_90.cu becomes NAME.sm_90.ptx. PTX of version 8.2 is what
driver 535 and all later ones accept. The first line of each output holds a hash of what it was made
from (the options, every header *.cuh by name, the source), so that a test that has no compiler
can tell whether text and source agree.
"""

import ctypes
import sys
from pathlib import Path

VERSION = (12, 2)
PTX_VERSION = ".version 8.2"


def options(source: Path) -> list[str]:
    target = "90" if source.name.endswith(".sm_90.cu") else "70"
    return [f"--gpu-architecture=compute_{target}", "--std=c++17"]


def output_name(source: Path) -> str:
    stem = source.name.removesuffix(".cu").removesuffix(".sm_90")
    return f"{stem}.sm_{'90' if source.name.endswith('.sm_90.cu') else '70'}.ptx"


def fnv1a64(data: bytes) -> str:
    state = 0xCBF29CE484222325
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{state:016x}"


def first_line(source: Path, headers: list[Path]) -> str:
    """crates/peerlane-gpu/tests/generated.rs computes the same."""
    words = " ".join(options(source))
    hashed = words.encode() + b"\0"
    for file in [*headers, source]:
        hashed += file.name.encode() + b"\0" + file.read_bytes() + b"\0"
    return f"// made from {source.name} fnv1a64 {fnv1a64(hashed)} by scripts/gpu/generate.sh with {words}\n"


def compile_one(nvrtc: ctypes.CDLL, source: Path, headers: list[Path]) -> str:
    def text_of(size_call, text_call) -> str:
        size = ctypes.c_size_t()
        size_call(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(max(size.value, 1))
        text_call(program, text)
        return text.value.decode()

    def c_strings(texts: list[bytes]):
        return (ctypes.c_char_p * max(len(texts), 1))(*texts)

    program = ctypes.c_void_p()
    status = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.read_bytes(), source.name.encode(), len(headers),
        c_strings([header.read_bytes() for header in headers]), c_strings([header.name.encode() for header in headers]))
    if status == 0:
        words = [word.encode() for word in options(source)]
        status = nvrtc.nvrtcCompileProgram(program, len(words), c_strings(words))
    if status != 0:
        log = text_of(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog) if program else ""
        sys.exit(f"{source} does not compile (NVRTC status {status}):\n{log}")
    ptx = text_of(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if PTX_VERSION not in ptx.splitlines():
        sys.exit(f"{source}: the compiler did not write '{PTX_VERSION}', which driver 535 needs")
    return first_line(source, headers) + ptx.strip("\n") + "\n"


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    nvrtc = ctypes.CDLL(str(Path(sys.argv[1]).resolve()))
    folder, output = Path(sys.argv[2]), Path(sys.argv[3])
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    if (major.value, minor.value) != VERSION:
        sys.exit(f"{sys.argv[1]} is NVRTC {major.value}.{minor.value}, not {VERSION[0]}.{VERSION[1]}")
    headers = sorted(folder.glob("*.cuh"))
    for source in sorted(folder.glob("*.cu")):
        (output / output_name(source)).write_text(compile_one(nvrtc, source, headers))


main()
