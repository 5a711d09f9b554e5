#!/usr/bin/env python3
"""Writes python/peerlane/documents.py: the classes of the documents in schema/. usage: scripts/python_documents.py [--check]"""

import json
import keyword
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "python/peerlane/documents.py"
# each document, the class in _base.py that gives it its methods, and what its table has a row for
DOCUMENTS = {
    "check": ("CheckMethods", []),
    "prediction": ("PredictionMethods", []),
    "explanation": ("Document", ["hops"]),
    "comparison": ("Document", ["designs"]),
    "simulation": ("Document", ["points"]),
    "placement": ("Document", ["choices"]),
    "inference": ("Document", ["groups"]),
    "accuracy": ("Document", ["targets", "figures"]),
}
HEAD = '''\
"""What answers consist of. Written by scripts/python_documents.py from the schemas in schema/; not meant to be edited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from peerlane._base import CheckMethods, Document, MatrixMethods, Part, PredictionMethods, many

'''
PLAIN = {"string": "str", "number": "float", "integer": "int", "boolean": "bool", "null": "None"}


def words(text, indent=""):
    """A docstring."""
    # references of Rust
    text = re.sub(r" \(\[`\w+::\w+`\]\)", "", text)
    text = re.sub(r"\[(`[^`]+`)\](\([^)]*\))?", r"\1", text).replace("\\", "\\\\").replace('"""', "'''")
    text = text if text.endswith((".", "!", "?", ":")) else text + "."
    lines = []
    for paragraph in text.split("\n\n"):
        lines += ["", *textwrap.wrap(" ".join(paragraph.split()), 120 - len(indent) - 3)]
    lines = lines[1:]
    close = '"""' if len(lines) == 1 else f'\n{indent}"""'
    return indent + '"""' + f"\n{indent}".join(lines) + close


class Writer:
    def __init__(self):
        self.bodies = {}  # name of a class: what its schema is, to notice another of the same name
        self.text = []

    def document(self, kind, base, rows):
        path, = ROOT.glob(f"schema/{kind}-*.json")
        schema = json.loads(path.read_text())
        own = schema["title"].removesuffix("Document")
        self.definitions, self.names = schema["$defs"], {}
        for name, body in schema["$defs"].items():
            same = self.bodies.get(name, (body, None))[0] == body
            self.names[name] = name if same and name != own else own + name
        self.define(own, schema, base)
        if rows:
            self.text[-1] += f"\n{own}._ROWS = {tuple(rows)!r}"

    def define(self, name, body, base="Part"):
        """Writes a class or the name of a type, after those that it needs."""
        if name in self.bodies:
            return
        self.bodies[name] = (body, base)
        if "properties" in body:
            self.structure(name, body, base)
            return
        if "oneOf" in body:
            values = [(choice["const"], choice.get("description", "")) for choice in body["oneOf"]]
            said = [f"#: {value}: {' '.join(text.split())}" for value, text in values]
            kind = "Literal[" + ", ".join(json.dumps(value) for value, _ in values) + "]"
            self.text.append(f"{name}: TypeAlias = {kind}\n" + words(body.get("description", name)))
            self.text[-1] = "\n".join([*map(shortened, said), self.text[-1]])
            return
        self.text.append(f"{name}: TypeAlias = {self.type(body)[0]}\n" + words(body.get("description", name)))

    def type(self, body):
        """A type's name, and what makes it of JSON: None where JSON's is the same."""
        if not isinstance(body, dict):
            raise SystemExit(f"{body}: not known")
        if "$ref" in body:
            wanted = body["$ref"].rsplit("/", 1)[1]
            target = self.definitions[wanted]
            self.define(self.names[wanted], target)
            name = self.names[wanted]
            return name, f"{name}._of" if "properties" in target else None
        if "anyOf" in body:
            kinds = [self.type(choice) for choice in body["anyOf"]]
            converts = [convert for _, convert in kinds if convert]
            return " | ".join(name for name, _ in kinds), converts[0] if converts else None
        if "const" in body:
            return f"Literal[{json.dumps(body['const'])}]", None
        kind = body.get("type")
        if isinstance(kind, list):
            kinds = [self.type({**body, "type": one}) for one in kind]
            converts = [convert for _, convert in kinds if convert]
            return " | ".join(name for name, _ in kinds), converts[0] if converts else None
        if kind == "array" and "prefixItems" in body:
            return "tuple[" + ", ".join(self.type(item)[0] for item in body["prefixItems"]) + "]", "tuple"
        if kind == "array":
            name, convert = self.type(body["items"])
            return f"tuple[{name}, ...]", f"many({convert})" if convert else "tuple"
        if kind in PLAIN:
            return PLAIN[kind], None
        raise SystemExit(f"{body}: not known")

    def structure(self, name, body, base):
        needed = set(body.get("required", []))
        fields, made = [], []
        for key, field in body["properties"].items():
            kind, convert = self.type(field)
            line = f"    {key}_: {kind}" if keyword.iskeyword(key) else f"    {key}: {kind}"
            if key not in needed:
                # what is left out of JSON where there is none of it
                default = "()" if kind.startswith("tuple[") and not kind.endswith("None") else "None"
                default = {"bool": "False"}.get(kind, default)
                line += (" | None" if default == "None" and not kind.endswith("None") else "") + f" = {default}"
            fields.append(line)
            if "description" in field:
                fields.append(words(field["description"], "    "))
            if convert:
                made.append(f'"{key}": {convert}')
        base = "MatrixMethods" if {"rows", "cols", "values"} <= set(body["properties"]) else base
        head = ["@dataclass(frozen=True, slots=True, kw_only=True, repr=False)", f"class {name}({base}):"]
        self.text.append("\n".join([*head, words(body.get("description", name), "    "), "", *fields]))
        if made:
            self.text.append(f"{name}._MADE = {{{', '.join(made)}}}")


def shortened(line):
    return "\n".join(textwrap.wrap(line, 120, subsequent_indent="#: "))


def main():
    writer = Writer()
    for kind, (base, rows) in DOCUMENTS.items():
        writer.document(kind, base, rows)
    fresh = HEAD + "\n\n\n".join(["", *writer.text])[1:] + "\n"
    if sys.argv[1:] == ["--check"]:
        if not OUTPUT.exists() or OUTPUT.read_text() != fresh:
            sys.exit(f"{OUTPUT.relative_to(ROOT)} is stale: run scripts/python_documents.py")
        return
    OUTPUT.write_text(fresh)


if __name__ == "__main__":
    main()
