"""Preparing ONNX models: once for a machine, whole or not at all, and without it all goes on."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support import graphs

from edgeserve.engines.onnx import prepare
from edgeserve.engines.onnx import session as ort
from edgeserve.engines.onnx.key import Machine, this_machine
from edgeserve.engines.onnx.note import NOTE, Note
from edgeserve.engines.onnx.optimise import REFUSED
from edgeserve.engines.onnx.prepare import Means, Prepared, prepared
from edgeserve.system import heap, pages

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
NO_CHILD = Means(command=("/no/such/child",))
"""For models that must be found: making them would fail."""


def child(code: str) -> tuple[str, ...]:
    """A child that runs ``code``, with SOURCE, FOLDER and FORM, in place of the real one."""
    return (sys.executable, "-c", f"import os, sys, time; SOURCE, FOLDER, FORM = sys.argv[1:]\n{code}")


def counting(log: Path) -> tuple[str, ...]:
    """The real child, each start of it a line in ``log``."""
    return child(
        f"print(FORM, file=open({str(log)!r}, 'a'), flush=True)\n"
        "from edgeserve.engines.onnx.optimise import main\nsys.exit(main(sys.argv[1:]))"
    )


def left(model: Path) -> list[str]:
    """Files in the folder of the prepared forms, without the lock."""
    folder = model.parent / "prepared" / model.name
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return graphs.build(tmp_path)


@pytest.mark.parametrize("beside", [False, True], ids=["weights inside", "weights beside"])
def test_results_are_those_of_the_graph_itself(tmp_path: Path, beside: bool) -> None:
    path = graphs.build(tmp_path, beside=beside)
    data = [tmp_path / "model.onnx.data"] if beside else []
    found = prepared(path, data=data)
    assert found.form == "prepacked"
    assert graphs.run(found.session()) == pytest.approx(graphs.run(ort.session(path)), abs=1e-5)


def test_plain_external_weights_give_the_same_results(model: Path) -> None:
    found = prepared(model, means=Means(command=child(f"{REFUSE_PREPACKED}; {REAL}")))
    assert found.form == "external"
    assert graphs.run(found.session()) == pytest.approx(graphs.run(ort.session(model)), abs=1e-5)


REAL = "from edgeserve.engines.onnx.optimise import main; sys.exit(main(sys.argv[1:]))"
REFUSE_PREPACKED = f"FORM == 'prepacked' and (print('no such kernel', file=sys.stderr), sys.exit({REFUSED}))"


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs /proc/self/smaps")
def test_weights_are_mapped_and_their_pages_can_be_dropped(model: Path) -> None:
    found = prepared(model)
    session = found.session()
    graphs.run(session)
    size = 4 * graphs.WIDTH**2
    mapped = list(pages.mappings(*found.data))
    assert size <= sum(one.size for one in mapped) < 2 * size
    assert pages.resident_mapped(*found.data) >= size
    assert all(one.anonymous == 0 for one in mapped)
    pages.drop_mapped(*found.data)
    assert pages.resident_mapped(*found.data) == 0
    pages.populate_mapped(*found.data)
    assert pages.resident_mapped(*found.data) >= size
    assert graphs.run(session) == pytest.approx(graphs.run(ort.session(model)), abs=1e-5)


def test_it_is_done_once(model: Path, tmp_path: Path) -> None:
    means = Means(command=counting(tmp_path / "log"))
    first = prepared(model, means=means)
    assert prepared(model, means=means) == first
    assert prepared(model, means=NO_CHILD) == first
    assert (tmp_path / "log").read_text().split() == ["prepacked"]


def test_equal_contents_written_anew_are_still_prepared(model: Path) -> None:
    first = prepared(model)
    os.utime(model, ns=(1, 1))
    assert prepared(model, means=NO_CHILD) == first
    note = Note.read(first.path.parent)
    assert note is not None
    assert note.key.sources["model.onnx"].mtime_ns == 1


def test_a_store_that_is_only_readable_is_still_prepared(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker may write nothing there, and the note has old times."""
    first = prepared(model)
    os.utime(model, ns=(1, 1))

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Note, "write", refuse)
    assert prepared(model, means=NO_CHILD) == first


@pytest.mark.parametrize(
    "machine",
    [Machine("99.0", this_machine().cpu), Machine(this_machine().runtime, "riscv64 0")],
    ids=["another runtime", "another processor"],
)
def test_another_machine_prepares_anew_and_the_old_goes(model: Path, machine: Machine) -> None:
    first = prepared(model)
    second = prepared(model, means=Means(machine=lambda: machine))
    assert second.path != first.path
    assert second.form == "prepacked"
    assert left(model) == [second.path.parent.name]


def test_another_content_prepares_anew_and_the_old_goes(model: Path) -> None:
    first = prepared(model)
    graphs.build(model.parent, seed=5)
    second = prepared(model)
    assert left(model) == [second.path.parent.name] != [first.path.parent.name]
    assert graphs.run(second.session()) == pytest.approx(graphs.run(ort.session(model)), abs=1e-5)


def test_other_weights_beside_the_same_graph_prepare_anew(tmp_path: Path) -> None:
    path, data = graphs.build(tmp_path, beside=True), tmp_path / "model.onnx.data"
    first = prepared(path, data=[data])
    changed = bytearray(data.read_bytes())
    changed[-1] ^= 1
    data.write_bytes(changed)
    assert prepared(path, data=[data]).path != first.path


@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(b""), Path.unlink], ids=["cut", "gone"])
@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data", NOTE])
def test_what_is_damaged_is_prepared_anew(model: Path, name: str, damage: Any) -> None:
    first = prepared(model)
    damage(first.path.with_name(name))
    assert prepared(model) == first
    assert graphs.run(first.session()).shape == (1, 16, 4)


def test_models_of_one_folder_keep_apart(tmp_path: Path) -> None:
    one, two = graphs.build(tmp_path, "decoder.onnx"), graphs.build(tmp_path, "decoder-joint.onnx", seed=1)
    assert [prepared(path).path.name for path in (one, two)] == ["decoder.onnx", "decoder-joint.onnx"]
    assert prepared(one, means=NO_CHILD).form == prepared(two, means=NO_CHILD).form == "prepacked"


@pytest.mark.parametrize("device", ["cuda", "metal"])
def test_accelerators_get_the_graph_itself(model: Path, device: Any) -> None:
    assert prepared(model, device=device, means=NO_CHILD) == Prepared(model, (), "original")
    assert not (model.parent / "prepared").exists()


# Without


def test_a_refusal_is_told_once_and_kept(model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "log"
    refusing = child(
        f"print(FORM, file=open({str(log)!r}, 'a'))\nprint('a trace\\nunknown kernel', file=sys.stderr); sys.exit(3)"
    )
    found = prepared(model, means=Means(command=refusing))
    assert found == Prepared(model, (), "original")
    assert log.read_text().split() == ["prepacked", "external"]
    (told,) = warnings(caplog)
    assert "prepacked: unknown kernel; external: unknown kernel" in told
    assert str(model) in told
    assert prepared(model, means=NO_CHILD) == found
    assert len(warnings(caplog)) == 1
    assert graphs.run(found.session()).shape == (1, 16, 4)


def test_a_graph_that_the_runtime_cannot_read_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"no graph at all")
    assert prepared(path).form == "original"
    assert "cannot open it" in warnings(caplog)[0]


def test_weights_beside_a_refused_graph_are_mapped_still(tmp_path: Path) -> None:
    path, data = graphs.build(tmp_path, beside=True), (tmp_path / "model.onnx.data",)
    found = prepared(path, data=data, means=Means(command=child("sys.exit(3)")))
    assert found == Prepared(path, data, "original")
    session = found.session()
    assert sum(one.size for one in pages.mappings(*data)) >= 4 * graphs.WIDTH**2 or sys.platform != "linux"
    assert graphs.run(session).shape == (1, 16, 4)


def test_too_little_disk_for_prepacked_weights_is_enough_for_plain_ones(model: Path) -> None:
    free = int(1.5 * model.stat().st_size) + prepare.DISK_MARGIN
    assert prepared(model, means=Means(free=lambda path: free)).form == "external"


def test_a_full_disk_is_told_with_its_figures(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert prepared(model, means=Means(free=lambda path: 50_000_000)) == Prepared(model, (), "original")
    assert warnings(caplog)[0].endswith("that takes 68 MB of free disk, there are 50 MB")
    assert not (model.parent / "prepared").exists()
    assert prepared(model).form == "prepacked"


def test_a_disk_that_fills_meanwhile_is_asked_again_later(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from edgeserve.engines.onnx import optimise

    monkeypatch.setattr(optimise, "FULL_DISK_BYTES", 1 << 60)
    monkeypatch.setattr(optimise, "_end_before_the_server", lambda: None)  # this process is no child
    broken = model.with_name("broken.onnx")
    broken.write_bytes(b"broken")
    assert optimise.main([str(broken), str(model.parent), "prepacked"]) == optimise.FAILED
    full = child("print('the disk is full', file=sys.stderr); sys.exit(1)")
    assert prepared(model, means=Means(command=full)).form == "original"
    assert warnings(caplog)[0].endswith("the disk is full")
    assert left(model) == []
    assert prepared(model).form == "prepacked"


def test_a_killed_child_leaves_nothing_and_another_may_follow(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    killed = child("open(f'{FOLDER}/model.onnx', 'w').write('half'); os.kill(os.getpid(), 9)")
    assert prepared(model, means=Means(command=killed)).form == "original"
    assert warnings(caplog)[0].endswith("was ended by signal 9")
    assert left(model) == []
    assert prepared(model).form == "prepacked"


def test_a_child_that_hangs_is_ended_and_not_asked_again(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    hanging = child("open(f'{FOLDER}/{FORM}', 'w'); time.sleep(600)")
    assert prepared(model, means=Means(command=hanging, seconds=0.2)).form == "original"
    assert "not done within 0 s" in warnings(caplog)[0]
    assert prepared(model, means=NO_CHILD).form == "original"


def test_a_folder_that_cannot_be_written_is_told(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    (model.parent / "prepared").write_text("a file in the way")
    assert prepared(model).form == "original"
    assert "cannot be prepared for this machine" in warnings(caplog)[0]


def test_a_missing_model_is_told_when_it_is_opened(tmp_path: Path) -> None:
    from edgeserve.errors import EngineFailure

    with pytest.raises(EngineFailure, match="no such file"):
        prepared(tmp_path / "gone.onnx").session()


# Several at once


def test_two_at_once_prepare_once(model: Path, tmp_path: Path) -> None:
    means = Means(command=counting(tmp_path / "log"))
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: prepared(model, means=means), range(4)))
    assert len(set(found)) == 1
    assert (tmp_path / "log").read_text().split() == ["prepacked"]


def test_the_child_of_a_killed_server_is_waited_for(model: Path, tmp_path: Path) -> None:
    started, go = tmp_path / "started", tmp_path / "go"
    os.mkfifo(started)
    os.mkfifo(go)
    code = (
        "import sys; from pathlib import Path; from edgeserve.engines.onnx.prepare import Means, prepared\n"
        f"prepared(Path({str(model)!r}), means=Means(command={child(WAIT.format(started, go))!r}))"
    )
    server = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    started.read_bytes()
    server.send_signal(signal.SIGKILL)
    server.wait()
    with (model.parent / "prepared" / model.name / ".lock").open("w") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(prepared, model)
        go.write_bytes(b"")
        assert waiting.result().form == "prepacked"
    assert ".partial" not in left(model)


WAIT = "open('{}', 'wb').close(); open('{}', 'rb').read()"


# The server's process


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc/self/smaps_rollup")
def test_preparing_takes_no_memory_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "WIDTH", 3000)
    path = graphs.build(tmp_path)
    assert path.stat().st_size > 36_000_000
    this_machine()
    heap.trim()
    before = pages.private_bytes()
    assert prepared(path).form == "prepacked"
    heap.trim()
    assert pages.private_bytes() - before < 4_000_000


def test_the_child_is_the_first_that_the_system_ends(tmp_path: Path) -> None:
    if not Path("/proc/self/oom_score_adj").exists():
        pytest.skip("no oom_score_adj here")
    code = (
        "from edgeserve.engines.onnx import optimise as o; o._end_before_the_server()\n"
        "print(open('/proc/self/oom_score_adj').read())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert told.stdout.strip() == "1000"


def test_the_note_can_be_read_by_people(model: Path) -> None:
    note = json.loads(prepared(model).path.with_name(NOTE).read_text(encoding="utf-8"))
    assert note["form"] == "prepacked"
    assert note["key"]["machine"]["runtime"].startswith(this_machine().runtime.split()[0])
