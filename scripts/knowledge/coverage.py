#!/usr/bin/env python3
"""Lists the messages of a library's source, and which of them the knowledge explains.

    scripts/knowledge/coverage.py PROGRAM SOURCE [--open] [--peerlane BINARY]

PROGRAM is nccl, rccl, ofi, nvrm, nvrm-kernel or pci; SOURCE a checkout, or a git directory (its HEAD is read). Each message is made a line with plain
values in place of its formats, and given to `peerlane check`. The last lines count messages by class: those with an entry of their own, and
those of a family; and those without one. `--open` lists the latter two.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The call that prints a warning, the folder, and what a line of the log looks like.
PROGRAMS = {
    "nccl": (r"\bWARN\(", "src", "h1:11:12 [0] {file}:{line} NCCL WARN {text}"),
    "rccl": (r"\bWARN\(", "src", "h1:11:12 [0] {file}:{line} NCCL WARN {text}"),
    "ofi": (r"\bNCCL_OFI_WARN\(", "src", "h1:11:12 [0] call:{line} NCCL WARN NET/OFI {text}"),
    "nvrm": (r"\bNV_PRINTF\(\s*LEVEL_ERROR\s*,", "src/nvidia", "[ 12.345678] NVRM: {function}: {text}"),
    "nvrm-kernel": (r"\bnv_printf\(\s*NV_DBG_ERRORS\s*,", "kernel-open/nvidia", "[ 12.345678] {text}"),
    "pci": (r"\b(?:pci|ctrl|dev)_(?:err|warn)\([^,\"]*,", "drivers/pci", "[ 12.345678] pcieport 0000:00:01.1: {text}"),
}

VALUES = {"d": "7", "i": "7", "u": "7", "x": "7f", "X": "7F", "p": "0x7f00", "c": "c", "f": "1.5", "g": "1.5", "m": "Invalid argument"}


def sources(source: Path, folder: str):
    """Names and texts of the C and C++ files."""
    suffixes = (".cc", ".c", ".h", ".cu", ".cpp", ".hpp", ".cuh")
    if (source / "HEAD").exists():
        git = ["git", "-C", str(source)]
        listed = subprocess.run([*git, "ls-tree", "-r", "--name-only", "HEAD", *([folder] if folder else [])], capture_output=True, text=True, check=True)
        names = [name for name in listed.stdout.splitlines() if name.endswith(suffixes)]
        asked = "".join(f"HEAD:{name}\n" for name in names).encode()
        rest = subprocess.run([*git, "cat-file", "--batch"], input=asked, capture_output=True, check=True).stdout
        for name in names:
            head, rest = rest.split(b"\n", 1)
            size = int(head.split()[2])
            yield name, rest[:size].decode(errors="replace")
            rest = rest[size + 1:]
    else:
        for path in sorted((source / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file():
                yield str(path.relative_to(source)), path.read_text(errors="replace")


def messages(source: Path, call: str, folder: str):
    """Formats of messages with their place and function, each once."""
    seen = set()
    for name, text in sources(source, folder):
        for match in re.finditer(call, text):
            rest = text[match.end():]
            pieces = []
            while piece := re.match(r'\s*(?:"((?:\\.|[^"\\])*)"|(PRI[a-zA-Z0-9]+|NvU64_fmt.|NvP64_fmt))', rest):
                pieces.append(piece[1] if piece[1] is not None else "d")
                rest = rest[piece.end():]
            form = "".join(pieces)
            if form and form not in seen:
                seen.add(form)
                functions = re.findall(r"^(?:[\w *]+[ *])?(\w+)\s*\((?!.*;$)", text[:match.start()], re.M)
                yield name, text.count("\n", 0, match.start()) + 1, functions[-1] if functions else "call", form


def composed(form: str) -> str:
    """A line such as the program prints, its formats replaced by plain values."""
    form = form.encode().decode("unicode_escape", errors="replace").split("\n")[0]
    words = iter(["alpha", "beta", "gamma", "delta", "kappa", "sigma"])
    fill = lambda m: "%" if m[0] == "%%" else next(words, "omega") if m[1] == "s" else VALUES.get(m[1], "7")
    return re.sub(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|j|t|I64)?([diuxXpcfgsm%])", fill, form)


def entries():
    """All entries by name: the class, and whether it is a family's."""
    folder = Path(__file__).resolve().parents[2] / "knowledge"
    files = (tomllib.loads(path.read_text()) for path in sorted(folder.glob("*.toml")))
    return {entry["id"]: (entry.get("class", "internal"), entry.get("family", False)) for file in files for entry in file["entry"]}


def explained(binary: str, line: str, known: dict):
    """The entry that explains a line."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
        file.write(line + "\n")
    out = subprocess.run([binary, "check", file.name, "--json"], capture_output=True, text=True)
    os.unlink(file.name)
    try:
        found = json.loads(out.stdout)
    except json.JSONDecodeError:
        return None
    rules = [finding["rule"] for finding in found["findings"]]
    return next((rule for rule in rules if rule in known), None)


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    if "--peerlane" in sys.argv:
        arguments.remove(sys.argv[sys.argv.index("--peerlane") + 1])
    if len(arguments) != 2 or arguments[0] not in PROGRAMS:
        sys.exit(__doc__)
    binary = sys.argv[sys.argv.index("--peerlane") + 1] if "--peerlane" in sys.argv else "target/debug/peerlane"
    call, folder, form = PROGRAMS[arguments[0]]
    known = entries()
    lines, bare = [], 0
    for name, number, function, text in messages(Path(arguments[1]), call, folder):
        if len(re.sub(r"%[-+ #0]*[\d.*]*[hlzjt]*[a-zA-Z]|\W", "", text)) < 4:
            bare += 1
            continue
        short = name.removeprefix(f"{folder}/")
        lines.append((short, number, text, form.format(file=short, line=number, function=function, text=composed(text))))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rules = list(pool.map(lambda line: explained(binary, line[3], known), lines))
    own, family, without = Counter(), Counter(), 0
    for (short, number, text, _), rule in zip(lines, rules):
        if rule is None:
            without += 1
        else:
            (family if known[rule][1] else own)[known[rule][0]] += 1
        if "--open" in sys.argv and (rule is None or known[rule][1]):
            print(f"{short}:{number}\t{rule or '-'}\t{text}")
    for name in sorted(own | family):
        print(f"{name}: {own[name]} with an entry of their own, {family[name]} of a family")
    print(f"{arguments[0]}: {len(lines)} messages: {own.total()} with an entry of their own, {family.total()} of a family, {without} without; {bare} bare formats")


if __name__ == "__main__":
    main()
