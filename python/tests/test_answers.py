"""Answers are those of the program, as frozen dataclasses and as tables."""

import dataclasses
import json
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import peerlane
from peerlane import documents
from peerlane._base import Part

ROOT = Path(__file__).resolve().parents[2]
SLOW_NODE = ROOT / "examples/slow-node"


def program(*words):
    """What the program writes for `--json`."""
    done = subprocess.run([sys.executable, "-m", "peerlane", *words, "--json"], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def same(part, raw, path=""):
    """Whether a dataclass holds all that JSON does, and nothing else."""
    if isinstance(part, Part):
        known = {field.name.rstrip("_"): getattr(part, field.name) for field in dataclasses.fields(part)}
        assert set(raw) <= set(known), path
        for name, value in known.items():
            if name in raw:
                same(value, raw[name], f"{path}.{name}")
            else:
                assert value in (None, (), False), f"{path}.{name}"
    elif isinstance(part, tuple):
        assert len(part) == len(raw), path
        for i, (one, other) in enumerate(zip(part, raw)):
            same(one, other, f"{path}[{i}]")
    else:
        assert part == raw, path


def test_answers_are_those_of_the_program():
    node = peerlane.open("slow-node")
    sizes, machine = "4KiB,1MiB", "k20-cx3-snb"
    for answer, words in [
        (node.check(), ["check", "slow-node"]),
        (peerlane.check(SLOW_NODE), ["check", "examples/slow-node"]),
        (node.predict(["4KiB", 1 << 20], sizes), ["predict", "slow-node", f"--sizes={sizes}", f"--collectives={sizes}"]),
        (peerlane.predict("h200x4-vm", "dgx-1"), ["predict", "h200x4-vm", "dgx-1"]),
        (node.explain("GPU0", "GPU5"), ["explain", "slow-node", "GPU0", "GPU5"]),
        (peerlane.explain(machine, "GPU0", "mlx4_0"), ["explain", machine, "GPU0", "mlx4_0"]),
        (node.simulate("all-reduce", sizes)[0], ["simulate", "slow-node", "-w", "all-reduce", "-s", sizes, "--helps"]),
        (peerlane.compare("h200x4-vm", "7gforce"), ["compare", "h200x4-vm", "7gforce"]),
        (peerlane.place("7gforce", "2x2", workload="ring"), ["place", "7gforce", "-j", "2x2", "-w", "ring"]),
        (peerlane.open("7gforce").place(3, busy=["GPU0"]), ["place", "7gforce", "-g", "3", "-b", "GPU0"]),
        (peerlane.open("7gforce").what_if("GPU3.link=x16").predict(), ["predict", "7gforce", "--what-if", "GPU3.link=x16"]),
    ]:
        expected = program(*words)
        if words[:2] == ["check", "examples/slow-node"]:
            expected = json.loads(json.dumps(expected).replace("examples/slow-node", str(SLOW_NODE)))
        assert answer.to_dict() == expected, words
        same(answer, expected, words[0])
        for other in [pickle.loads(pickle.dumps(answer)), dataclasses.replace(answer)]:
            assert other == answer and hash(other) == hash(answer)
    # the program measures, where it can
    same(peerlane.infer("exxact-txr414"), peerlane.infer("exxact-txr414").to_dict())
    assert peerlane.accuracy("h200x4-vm").targets[0].name == "h200x4-vm"


def test_documents_are_frozen_and_are_made_by_hand_too():
    check = peerlane.check("slow-node")
    assert check.verdict == "fault" and "NVLink" in check.findings[0].summary
    with pytest.raises(dataclasses.FrozenInstanceError):
        check.verdict = "healthy"
    with pytest.raises(AttributeError, match="no attribute 'veredict'"):
        check.veredict
    cost = documents.Cost(lost=1.5, unit="GB/s", share=0.1)
    assert cost == documents.Cost._of({"lost": 1.5, "unit": "GB/s", "share": 0.1, "of a later release": 1})
    assert repr(cost) == "Cost(lost=1.5, share=0.1, unit='GB/s')" and len(repr(check)) < 3000
    assert dataclasses.asdict(cost) == {"lost": 1.5, "unit": "GB/s", "share": 0.1}
    assert peerlane.predict("h200x4-vm", sizes=4096).curves[0].from_ == "GPU0"


def test_cells_are_all_that_is_expected_and_measured():
    pandas, polars, pyarrow = map(pytest.importorskip, ["pandas", "polars", "pyarrow"])
    node = peerlane.open("h200x4-vm")
    frame = node.to_pandas()
    comparison = node.check().machines[0].comparison
    cells = [cell for table in comparison.tables for cell in table.cells]
    assert len(frame) == sum(max(1, len(cell.measured)) for cell in cells)
    assert frame.measured.sum() == pytest.approx(sum(m.value for cell in cells for m in cell.measured))
    both = frame[frame.measured.notna() & frame.expected.notna()]
    assert len(both) > 100 and (both.ratio - both.measured / both.expected).abs().max() < 1e-12
    assert frame.dtypes[["from", "size", "p2p", "low"]].astype(str).to_list() == ["str", "Int64", "boolean", "float64"]
    # data of a read comes from the column
    [read] = [t for t in comparison.tables if t.op == "read" and t.engine == "sm"][:1]
    first = next(cell for cell in read.cells if cell.measured)
    rows = frame[(frame.op == "read") & (frame.engine == "sm") & frame.measured.notna()]
    assert (first.row, first.col) in set(zip(rows.to, rows["from"]))
    table = node.cells()
    assert table["measured"].dtype == "float64" and len(table) == len(frame) == len(table["size"])
    assert table.to_polars().equals(polars.DataFrame(pickle.loads(pickle.dumps(table))))
    assert pyarrow.table(table).to_pandas().measured.equals(frame.measured)
    assert node.predict().to_pandas().shape[1] == len(table.columns)
    with pytest.raises(KeyError):
        table["nothing"]


def test_every_document_is_a_table():
    pandas = pytest.importorskip("pandas")
    points = peerlane.simulate("h200x4-vm", workload="all-reduce", sizes="1MiB..4MiB")[0].to_pandas()
    assert points["size"].to_list() == [1 << 20, 2 << 20, 4 << 20] and set(points.target) == {"h200x4-vm"}
    for answer, column in [
        (peerlane.explain("h200x4-vm", "GPU0", "GPU1"), "tightest"),
        (peerlane.compare("h200x4-vm", "7gforce"), "pair.worst.rate"),
        (peerlane.place("7gforce", "2x2"), "gpus"),
        (peerlane.accuracy("7gforce"), "predicted.value"),
    ]:
        frame = answer.to_pandas()
        assert len(frame) > 0 and frame[column].notna().any(), type(answer)
        assert answer.to_polars().columns == frame.columns.to_list()
    assert isinstance(pandas.DataFrame(list(peerlane.check("slow-node").findings)).fix[0], str)


def test_matrices_are_arrays():
    numpy = pytest.importorskip("numpy")
    matrix = peerlane.predict("7gforce").matrices[0]
    array = matrix.to_numpy()
    assert array.shape == (len(matrix.rows), len(matrix.cols)) and numpy.isnan(array[0, 0]) == (matrix.values[0][0] is None)
    assert (matrix.to_numpy("low") <= array)[~numpy.isnan(array)].all()


def test_texts_folders_and_designs_are_opened():
    texts = {file.name: file.read_text() for file in sorted(SLOW_NODE.iterdir())}
    assert peerlane.open_text(texts).check().verdict == "fault"
    assert peerlane.open_text(texts["topo.txt"], name="topo").machines == ["topo"]
    box = (ROOT / "examples/box.toml").read_bytes()
    assert peerlane.open_text(box, name="box.toml").check().verdict == peerlane.check(ROOT / "examples/box.toml").verdict
    cluster = (ROOT / "examples/cluster.toml").read_text()
    node = peerlane.open_text(cluster, name="cluster.toml")
    assert node.clusters and node.simulate("all-reduce", "1MiB")[0].target == node.clusters[0]
    assert peerlane.open("h200x4-vm", "dgx-1").only("dgx-1").machines == ["dgx-1"]


def test_what_cannot_be_read_is_an_error_or_a_warning(tmp_path):
    for wrong, words in [
        (lambda: peerlane.open("h200x4"), "did you mean h200x4-vm"),
        (lambda: peerlane.open(), "nothing to open"),
        (lambda: peerlane.open_text("nothing", name="log"), "log: nothing recognised"),
        (lambda: peerlane.explain("h200x4-vm", "GPU0", "GPU9"), "no node 'GPU9'"),
        (lambda: peerlane.simulate("h200x4-vm", workload="nothing"), "nothing"),
        (lambda: peerlane.predict("h200x4-vm", sizes="12 feet"), "12 feet"),
        (lambda: peerlane.open("h200x4-vm").what_if("GPU9.link=x1"), "GPU9"),
        (lambda: peerlane.place("h200x4-vm", workload="chess"), "no such workload: 'chess'"),
        (lambda: peerlane.check("h200x4-vm", rules=tmp_path / "none.toml"), "none.toml"),
    ]:
        with pytest.raises(peerlane.Error, match=words):
            wrong()
    (tmp_path / "poem.txt").write_text("Shall I compare thee\n")
    with pytest.warns(UserWarning, match="poem.txt: nothing recognised"):
        node = peerlane.open("h200x4-vm", tmp_path / "poem.txt")
    assert node.incomplete and node.machines == ["h200x4-vm"]


def test_a_panic_is_an_exception():
    with pytest.raises(peerlane.Error, match="please report it: out of luck"):
        peerlane._native.fail("out of luck")
    assert peerlane.check("slow-node").verdict == "fault"


def test_other_threads_run_meanwhile():
    node, counted, done = peerlane.open("dgx-2"), [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before, start = counted[0], time.monotonic()
    node.predict()
    seconds, after = time.monotonic() - start, counted[0]
    done.set()
    thread.join()
    # held, the lock would have let it count once or twice
    assert after - before > max(3, 50 * seconds), f"{after - before} in {seconds} s"


def test_a_notebook_shows_answers_with_everything_escaped():
    check = peerlane.open_text((SLOW_NODE / "topo.txt").read_text(), name="<script>").check()
    for shown in [check, peerlane.predict("7gforce"), peerlane.open("7gforce").cells()]:
        html = shown._repr_html_()
        assert "<script>" not in html and html.startswith("<div>") and len(html) < 20_000
    assert "&lt;script&gt;" in check._repr_html_()
    assert peerlane.check("slow-node").findings[0].summary in peerlane.check("slow-node")._repr_html_()
