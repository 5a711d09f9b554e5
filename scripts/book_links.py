#!/usr/bin/env python3
"""A preprocessor of mdBook: pages link to files outside docs/, which the site does not hold.

Such a link becomes its text and the file's path; with PEERLANE_REPOSITORY=https://…/tree/main, a link to the file there.
"""
import json, os, re, sys

if sys.argv[1:2] == ["supports"]:
    sys.exit(0)

_, book = json.load(sys.stdin)
base = os.environ.get("PEERLANE_REPOSITORY", "").rstrip("/")


def outside(match, folder):
    text, target = match.groups()
    path = os.path.normpath(os.path.join("docs", folder, target.split("#")[0]))
    if path.startswith("docs/"):
        return match.group(0)
    if base:
        return f"[{text}]({base}/{path})"
    return f"{text}" if path in text else f"{text} (`{path}`)"


def visit(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            folder = os.path.dirname(chapter.get("path") or "")
            chapter["content"] = re.sub(
                r"\[([^\]]*)\]\((\.\./[^)\s]*)\)", lambda m: outside(m, folder), chapter["content"]
            )
            visit(chapter.get("sub_items", []))


visit(book.get("items", book.get("sections", [])))
json.dump(book, sys.stdout)
