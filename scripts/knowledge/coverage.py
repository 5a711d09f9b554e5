#!/usr/bin/env python3
"""Lists the messages of a library's source, and which of them the knowledge explains.

    scripts/knowledge/coverage.py PROGRAM SOURCE [--open] [--peerlane BINARY]

PROGRAM is nccl, rccl, ofi, nvrm or pci; SOURCE a checkout, or a git directory (its HEAD is read). Each message is made a line with plain
values in place of its formats, and given to `peerlane check`. The last line counts: messages with an entry of their own, with a
family's, and without one. `--open` lists the latter two.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

# The call that prints a warning, the folder, and what a line of the log looks like.
PROGRAMS = {
    "nccl": (r"\bWARN\(", "src", "h1:11:12 [0] {file}:{line} NCCL WARN {text}"),
    "rccl": (r"\bWARN\(", "src", "h1:11:12 [0] {file}:{line} NCCL WARN {text}"),
    "ofi": (r"\bNCCL_OFI_WARN\(", "src", "h1:11:12 [0] call:{line} NCCL WARN NET/OFI {text}"),
    "nvrm": (r"\bNV_PRINTF\(\s*LEVEL_ERROR\s*,|\bnv_printf\(\s*NV_DBG_ERRORS\s*,", "", "[ 12.345678] {text}"),
    "pci": (r"\b(?:pci|ctrl|dev)_(?:err|warn)\([^,\"]*,", "drivers/pci", "[ 12.345678] pcieport 0000:00:01.1: {text}"),
}

VALUES = {"d": "7", "i": "7", "u": "7", "x": "7f", "X": "7F", "p": "0x7f00", "c": "c", "f": "1.5", "g": "1.5", "m": "Invalid argument"}


def sources(source: Path, folder: str):
    """Names and texts of the C and C++ files."""
    suffixes = (".cc", ".c", ".h", ".cu", ".cpp", ".hpp", ".cuh")
    if (source / "HEAD").exists():
        git = ["git", "-C", str(source)]
        listed = subprocess.run([*git, "ls-tree", "-r", "--name-only", "HEAD", *([folder] if folder else [])], capture_output=True, text=True, check=True)
        for name in listed.stdout.splitlines():
            if name.endswith(suffixes):
                yield name, subprocess.run([*git, "show", f"HEAD:{name}"], capture_output=True, check=True).stdout.decode(errors="replace")
    else:
        for path in sorted((source / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file():
                yield str(path.relative_to(source)), path.read_text(errors="replace")


def messages(source: Path, call: str, folder: str):
    """Formats of messages with their place, each once."""
    seen = set()
    for name, text in sources(source, folder):
        for match in re.finditer(call, text):
            rest = text[match.end():]
            pieces = []
            while piece := re.match(r'\s*(?:"((?:\\.|[^"\\])*)"|(PRI[a-zA-Z0-9]+))', rest):
                pieces.append(piece[1] if piece[1] is not None else "d")
                rest = rest[piece.end():]
            form = "".join(pieces)
            if form and form not in seen:
                seen.add(form)
                yield name, text.count("\n", 0, match.start()) + 1, form


def composed(form: str) -> str:
    """A line such as the program prints, its formats replaced by plain values."""
    form = form.encode().decode("unicode_escape", errors="replace").split("\n")[0]
    words = iter(["alpha", "beta", "gamma", "delta", "kappa", "sigma"])
    fill = lambda m: "%" if m[0] == "%%" else next(words, "omega") if m[1] == "s" else VALUES.get(m[1], "7")
    return re.sub(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|j|t|I64)?([diuxXpcfgsm%])", fill, form)


def entries():
    """Names of all entries: true for those of a family."""
    folder = Path(__file__).resolve().parents[2] / "knowledge"
    files = (tomllib.loads(path.read_text()) for path in sorted(folder.glob("*.toml")))
    return {entry["id"]: entry.get("family", False) for file in files for entry in file["entry"]}


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
    own = family = bare = without = 0
    for name, number, text in messages(Path(arguments[1]), call, folder):
        if len(re.sub(r"%[-+ #0]*[\d.*]*[hlzjt]*[a-zA-Z]|\W", "", text)) < 4:
            bare += 1
            continue
        short = name.removeprefix(f"{folder}/")
        rule = explained(binary, form.format(file=short, line=number, text=composed(text)), known)
        own += rule is not None and not known[rule]
        family += rule is not None and known[rule]
        without += rule is None
        if "--open" in sys.argv and (rule is None or known[rule]):
            print(f"{short}:{number}\t{rule or '-'}\t{text}")
    total = own + family + without
    print(f"{arguments[0]}: {total} messages: {own} with an entry of their own, {family} with a family's, {without} without; {bare} bare formats")


if __name__ == "__main__":
    main()
