#!/usr/bin/env python3
"""Writes a list of what a package contains (CycloneDX 1.5, JSON): of a workspace's program all crates that are in it when it runs.

usage: scripts/sbom.py MANIFEST PACKAGE > FILE

It is made of `cargo metadata --locked` and Cargo.lock alone, so that the same sources give the same list.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path


def crates(manifest: Path, package: str) -> list[dict]:
    """The packages in the program: what it depends on when it runs, without macros."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--manifest-path", str(manifest)]
    host = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    target = next(line.split()[1] for line in host.splitlines() if line.startswith("host: "))
    found = json.loads(subprocess.run([*command, "--filter-platform", target], check=True, capture_output=True).stdout)
    packages = {p["id"]: p for p in found["packages"]}
    nodes = {n["id"]: n for n in found["resolve"]["nodes"]}
    is_macro = lambda p: any("proc-macro" in t["kind"] for t in p["targets"])
    waiting = [next(i for i, p in packages.items() if p["name"] == package)]
    seen: set[str] = set()
    while waiting:
        one = waiting.pop()
        if one in seen or is_macro(packages[one]):
            continue
        seen.add(one)
        # a dependency of the program itself has no kind; of tests and build scripts it is "dev" and "build"
        waiting += [d["pkg"] for d in nodes[one]["deps"] if any(k["kind"] is None for k in d["dep_kinds"])]
    return sorted((packages[i] for i in seen), key=lambda p: (p["name"], p["version"]))


def main() -> None:
    manifest, package = Path(sys.argv[1]), sys.argv[2]
    all_of_it = crates(manifest, package)
    locked = tomllib.loads((manifest.parent / "Cargo.lock").read_text())["package"]
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in locked}
    own = next(p for p in all_of_it if p["name"] == package)

    def component(p: dict) -> dict:
        reference = f"pkg:cargo/{p['name']}@{p['version']}"
        listed = {"type": "library", "bom-ref": reference, "name": p["name"], "version": p["version"], "purl": reference}
        if p.get("license"):
            # a stroke is how OR was once written
            listed["licenses"] = [{"expression": p["license"].replace("/", " OR ")}]
        if checksum := checksums.get((p["name"], p["version"])):
            listed["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return listed

    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(own) | {"type": "application"}},
        "components": [component(p) for p in all_of_it if p is not own],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
