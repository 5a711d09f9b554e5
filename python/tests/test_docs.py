"""What pages show of the package works; generated files are fresh."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["docs/python.md", "docs/recipes.md"]


def blocks():
    for page in PAGES:
        text = (ROOT / page).read_text()
        for i, block in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S), 1):
            yield pytest.param(block, id=f"{page}-{i}")


@pytest.mark.parametrize("block", list(blocks()))
def test_blocks_run(block, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    for folder in ["captures", "examples"]:
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "block", "exec"), {"__name__": "block"})


def test_the_page_is_short():
    assert len((ROOT / "docs/python.md").read_text().split()) <= 900


def test_documents_are_fresh():
    subprocess.run([sys.executable, ROOT / "scripts/python_documents.py", "--check"], check=True)


def test_both_locks_have_the_same_versions():
    def locked(file):
        packages = (ROOT / file).read_text().split("[[package]]")[1:]
        pairs = re.findall(r'name = "(.*)"\nversion = "(.*)"', "".join(packages))
        return {name: {v for n, v in pairs if n == name} for name, _ in pairs}

    own, root = locked("crates/peerlane-py/Cargo.lock"), locked("Cargo.lock")
    differ = {name: versions for name, versions in own.items() if not versions <= root.get(name, versions)}
    # what a dependency of the package alone needs another version of
    assert set(differ) <= {"getrandom", "num-bigint"}, differ
