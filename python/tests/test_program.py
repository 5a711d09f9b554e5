"""The program within Python, its workers, and measuring."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import peerlane

ROOT = Path(__file__).resolve().parents[2]


def run(*words, **options):
    return subprocess.run([sys.executable, "-m", "peerlane", *words], capture_output=True, text=True, **options)


@pytest.fixture
def hanging(tmp_path):
    """A simulated machine of which one pair hangs."""
    system = tmp_path / "system.toml"
    text = (ROOT / "systems/h200x4-vm.toml").read_text()
    system.write_text(text + '\n[[faults]]\nhang = ["GPU1", "GPU2"]\n')
    return system


def test_it_is_the_program():
    assert run("--version").stdout == f"peerlane {peerlane.__version__}\n"
    checked = run("check", "slow-node")
    assert checked.returncode == 1 and "GPU5" in checked.stdout and checked.stderr == ""
    refused = run("check", "no-such-file")
    assert refused.returncode == 2 and refused.stderr.startswith("peerlane: ")
    assert run("--help").stdout.startswith("Shows what every path")


def test_nothing_of_the_current_folder_is_run_by_workers(tmp_path):
    for name in ["peerlane.py", "signal.py", "os.py", "subprocess.py"]:
        (tmp_path / name).write_text("raise SystemExit('taken')")
    main = Path(peerlane.__file__).with_name("__main__.py")
    command = [sys.executable, main, "measure", "h200x4-vm", "--tests", "pairs", "-o", "run.json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_measuring_keeps_and_opens_a_record(tmp_path, capfd):
    record = tmp_path / "run.json"
    node = peerlane.measure("h200x4-vm", tests=["pairs"], out=record)
    assert record.exists() and node.machines == ["h200x4-vm"]
    values = [value for value, origin in zip(node.cells()["measured"], node.cells()["origin"]) if origin and "run.json" in origin]
    assert len(values) >= 12 and min(values) > 100
    with pytest.raises(peerlane.Error, match="no such system or file"):
        peerlane.measure("h200x4", out=tmp_path / "other.json")
    with pytest.raises(peerlane.Error, match="invalid value 'nonsense'"):
        peerlane.measure("h200x4-vm", tests=["nonsense"], out=record)


def test_a_pair_that_hangs_is_a_warning(hanging, tmp_path):
    with pytest.warns(UserWarning, match="no sign of life"):
        node = peerlane.measure(hanging, tests=["pairs"], out=tmp_path / "run.json", options=["--patience", "300ms"])
    assert node.check().verdict != "healthy"


def test_an_interrupt_loses_no_cell(hanging, tmp_path):
    record = tmp_path / "run.json"

    def interrupt():
        partial, size = Path(f"{record}.partial"), -1
        while not partial.exists() or partial.stat().st_size != size:
            size = partial.stat().st_size if partial.exists() else -1
            time.sleep(1.5)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.warns(UserWarning, match="interrupted"):
        node = peerlane.measure(hanging, out=record, options=["--patience", "10m"])
    assert any("run.json" in (origin or "") for origin in node.cells()["origin"])


def test_live_asks_a_worker():
    if os.path.exists("/proc/driver/nvidia"):
        assert peerlane.open("live").machines
        return
    with pytest.raises(peerlane.Error, match="no GPU found on this machine"):
        peerlane.open("live")


def test_interrupts_end_the_program():
    command = [sys.executable, "-c", "import sys, peerlane.__main__ as m; sys.argv[1:] = ['check', '-']; print(m.main())"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    assert child.wait(10) == -signal.SIGINT
    child.stdin.close()
    child.stdout.close()
