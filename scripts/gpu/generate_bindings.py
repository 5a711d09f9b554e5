#!/usr/bin/env python3
"""Turns the vendors' headers into the files of crates/peerlane-gpu/src/bindings, with bindgen.

usage: generate_bindings.py BINDGEN WHEELS_FOLDER RDMA_CORE_FOLDER OUTPUT_FOLDER

What is taken from each header is listed in symbols/*.txt. Types and constants are bindgen's, without the
constants that no source of the workspace names. Its function declarations, which would have to be linked, become a table of function pointers, each of
which may be absent, so that a library is opened at run time and an old one still serves.
"""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

# The few names that the headers take from the C library and from CUDA's runtime: with these the result
# does not depend on what the machine has installed.
STAND_INS = {
    "stddef.h": "typedef unsigned long size_t;\n#define NULL ((void *)0)\n"
                "#define offsetof(type, field) __builtin_offsetof(type, field)\n",
    "stdint.h": "".join(
        f"typedef {kind} int{bits}_t; typedef unsigned {kind} uint{bits}_t;\n"
        for bits, kind in [(8, "char"), (16, "short"), (32, "int"), (64, "long")]
    ) + "typedef unsigned long uintptr_t;\n#define UINTPTR_MAX UINT64_MAX\n#define UINT64_MAX (18446744073709551615ul)\n",
    "stdlib.h": '#include "stddef.h"\n',
    "limits.h": "#define INT_MIN (-2147483647 - 1)\n",
    "cuda_runtime.h": '#include "stddef.h"\ntypedef struct CUstream_st *cudaStream_t;\n',
    "cuda_fp16.h": "",
    "errno.h": "extern int errno;\n"
               "#define EPERM 1\n#define EINVAL 22\n#define ENOSYS 38\n#define EOPNOTSUPP 95\n",
    "string.h": '#include "stddef.h"\nvoid *memset(void *start, int byte, size_t bytes);\n',
    # sizes of glibc on x86_64; what is read of a structure stands before them
    "pthread.h": "typedef struct { long long words[5]; } pthread_mutex_t;\ntypedef struct { long long words[6]; } pthread_cond_t;\n"
                 "int pthread_mutex_init(pthread_mutex_t *, void *);\nint pthread_cond_init(pthread_cond_t *, void *);\n",
    "sys/types.h": "typedef long ssize_t;\nstruct timespec { long tv_sec; long tv_nsec; };\n",
    "linux/if_ether.h": "#define ETH_ALEN 6\n",
    "linux/types.h": '#include "stdint.h"\n' + "".join(
        f"typedef uint{bits}_t __u{bits}; typedef int{bits}_t __s{bits};\n" for bits in [8, 16, 32, 64]
    ) + "".join(f"typedef __u{bits} __be{bits}; typedef __u{bits} __le{bits};\n" for bits in [16, 32, 64])
    + "#define __aligned_u64 __u64 __attribute__((aligned(8)))\n",
}


@dataclass
class Header:
    name: str
    path: str
    table: str
    says: str
    made_from: str
    options: list[str] = field(default_factory=list)
    uses: str = ""


HEADERS = [
    Header("cuda", "nvidia/cuda_runtime/include/cuda.h", "Cuda", "The CUDA driver interface, `libcuda.so.1`.",
           "cuda.h of CUDA 12.2 (nvidia-cuda-runtime-cu12 12.2.140)"),
    Header("nvml", "nvidia/cu13/include/nvml.h", "Nvml", "NVIDIA's management library, `libnvidia-ml.so.1`.",
           "nvml.h of CUDA 13.0 (nvidia-nvml-dev 13.0.87)", ["-DNVML_NO_UNVERSIONED_FUNC_DEFS"]),
    # a stream of NCCL's is one of the driver's
    Header("nccl", "nvidia/nccl/include/nccl.h", "Nccl", "NVIDIA's collective communication library, `libnccl.so.2`.",
           "nccl.h of NCCL 2.19.3 (nvidia-nccl-cu12 2.19.3)", uses="use super::cuda::CUstream_st;\n"),
    Header("verbs", "infiniband/verbs.h", "Verbs", "The verbs of RDMA adapters, `libibverbs.so.1`.",
           "verbs.h of rdma-core 55.0 (ibverbs-sys 0.3.2+55.0 on crates.io)"),
]

CONSTANT = re.compile(r"^ *pub const (\w+)\s*:[^;]*;\n", re.MULTILINE)
EMPTY_IMPL = re.compile(r"^impl \w+ \{\s*\}\n", re.MULTILINE)
DECLARATION = re.compile(r'unsafe extern "C" \{\s*pub fn (\w+)\s*\((.*?)\)( -> [^;{]+?)?;\s*\}\n', re.DOTALL)


@dataclass
class Wanted:
    functions: dict[str, str]
    constants: list[str]
    types: list[str]


def read_wanted(path: Path) -> Wanted:
    wanted = Wanted({}, [], [])
    since = None
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        if words[0] == "since":
            since = words[1]
        elif words[0] == "const":
            wanted.constants.append(words[1])
        elif words[0] == "type":
            wanted.types.append(words[1])
        else:
            wanted.functions[words[0]] = since
    return wanted


def run_bindgen(bindgen: str, header: Header, wanted: Wanted, folder: Path, stand_ins: Path) -> str:
    command = [
        bindgen, str(folder / header.path), "--rust-target", "1.88", "--rust-edition", "2024",
        "--default-enum-style", "newtype", "--with-derive-default", "--with-derive-eq", "--no-doc-comments",
        "--disable-header-comment", "--no-prepend-enum-name", "--formatter", "prettyplease",
        "--blocklist-type", "u?int(8|16|32|64)_t|uintptr_t",
        # of these only addresses are used
        "--opaque-type", "ibv_(mw|mw_bind|mw_bind_info|wq|srq|ah|comp_channel)",
        # functions cannot be compared
        "--no-partialeq", "_?ibv_(context|device|wq)(_ops)?",
    ]
    for function in wanted.functions:
        command += ["--allowlist-function", function]
    for constant in wanted.constants:
        command += ["--allowlist-var", constant]
    for name in wanted.types:
        command += ["--allowlist-type", name]
    if header.uses:
        command += ["--blocklist-type", "CUstream_st"]
    command += ["--", "--target=x86_64-unknown-linux-gnu", "-nostdinc", f"-isystem{stand_ins}", f"-I{folder}", *header.options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bindgen cannot read {header.path}:\n{done.stderr}")
    return done.stdout


def named_in_sources() -> set[str]:
    """Every word of the workspace's sources, the bindings left out."""
    words = set()
    for source in (Path(__file__).parents[2] / "crates").rglob("*.rs"):
        if source.parent.name != "bindings":
            words.update(re.findall(r"\w+", source.read_text()))
    return words


def bindings(bindgen: str, header: Header, folder: Path, stand_ins: Path) -> str:
    wanted = read_wanted(Path(__file__).parent / "symbols" / f"{header.name}.txt")
    declared = run_bindgen(bindgen, header, wanted, folder, stand_ins)
    named = named_in_sources()
    declared = CONSTANT.sub(lambda found: found[0] if found[1] in named else "", declared)
    declared = EMPTY_IMPL.sub("", declared)
    # C's types under their plain names
    c_types = sorted(set(re.findall(r"::std::os::raw::(c_\w+)", declared)))
    declared = declared.replace("::std::os::raw::", "")
    declarations = {name: declaration(name, arguments, result) for name, arguments, result in DECLARATION.findall(declared)}
    lost = [name for name in wanted.functions if name not in declarations]
    if lost or len(declarations) != declared.count('extern "C" {'):
        sys.exit(f"{header.path} declares no {', '.join(lost) or 'such functions as were understood'}")
    table = ""
    for since in dict.fromkeys(wanted.functions.values()):
        functions = "".join(declarations[name] for name, version in wanted.functions.items() if version == since)
        table += f'        since "{since}":\n{functions}'
    return f"""//! {header.says}
//!
//! Generated by scripts/gpu/generate.sh from {header.made_from}: do not edit.

#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "names and layouts are the header's"
)]

use std::ffi::{{{", ".join(c_types)}}};

{header.uses}use crate::library::table;

table! {{
    /// The functions of the library that was opened: `None` where it has no such function.
    pub struct {header.table} {{
{table}    }}
}}

{DECLARATION.sub("", declared).strip()}
"""


def declaration(name: str, arguments: str, result: str) -> str:
    """One function as `table!` reads it; rustfmt leaves what is in a macro alone."""
    arguments = " ".join(arguments.split()).rstrip(", ")
    line = f"        fn {name}({arguments}){result or ' -> ()'};\n"
    if len(line) > 120:
        line = line.replace(f"({arguments})", "(\n            " + arguments.replace(", ", ",\n            ") + ",\n        )")
    return line


def main() -> None:
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    bindgen, wheels, rdma_core, output = sys.argv[1], *map(Path, sys.argv[2:])
    stand_ins = output / "stand_ins"
    stand_ins.mkdir()
    for name, text in STAND_INS.items():
        (stand_ins / name).parent.mkdir(exist_ok=True)
        (stand_ins / name).write_text(f"#pragma once\n{text}")
    for header in HEADERS:
        folder = rdma_core if header.name == "verbs" else wheels
        (output / f"{header.name}.rs").write_text(bindings(bindgen, header, folder, stand_ins))


main()
