"""ONNX models prepared once for this machine, so that their weights are mapped from a file:

    <folder of the model>/prepared/<graph>/<digest>/   the graph, its weights (".data"), note.json

The runtime optimises a graph each time it opens the graph. It also reorders ("prepacks") the weights for the processor,
into private memory. Here a child process does so once, and its files are mapped (docs/memory.md). A model that cannot
be prepared is used as it is, and the log says why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.device import Device
from edgeserve.engines.onnx import session as ort
from edgeserve.engines.onnx.crowd import Crowd, Sessions
from edgeserve.engines.onnx.key import Key, Machine, this_machine
from edgeserve.engines.onnx.note import NOTE, Form, Note
from edgeserve.engines.onnx.optimise import REFUSED

log = logging.getLogger("edgeserve.onnx")

FOLDER, LOCK, PARTIAL = "prepared", ".lock", ".partial"
DISK_SHARE: dict[Form, float] = {"prepacked": 2.1, "external": 1.05}
"""Disk space of each form for each byte of the model; best form first."""
DISK_MARGIN = 64 << 20
"""Bytes of the disk that stay free."""
SECONDS, BYTES_PER_SECOND = 60.0, 4 << 20
"""Time limit of a child: a base, and a rate for the size of the model (a slow card writes 10 MB a second)."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A graph to open. ``data``: files that its weights are mapped from; empty for weights inside the graph."""

    path: Path
    data: tuple[Path, ...]
    form: Form

    def session(self, *, threads: int | None = None, device: Device = "cpu", reuse: bool = False) -> Any:
        """Open the graph; settings are those of ``session.session``. Raises EngineFailure naming the file."""
        mapped, optimised = bool(self.data) and self.form != "prepacked", self.form != "original"
        return ort.session(self.path, threads=threads, device=device, mapped=mapped, optimised=optimised, reuse=reuse)

    def sessions(self, crowd: Crowd, *, device: Device = "cpu", reuse: bool = False) -> Sessions:
        """The graph with as many threads as other programs leave.

        All of them, always, where another session would copy the weights, and on an accelerator.
        """
        fixed = not self.data or ort.uses_gpu(device)
        return Sessions(crowd, lambda threads: self.session(threads=threads, device=device, reuse=reuse), fixed=fixed)


@dataclass(frozen=True, slots=True)
class Means:
    """Dependencies of a preparation. ``free``: free bytes of a folder's disk. ``seconds``: base of the time limit."""

    machine: Callable[[], Machine] = this_machine
    free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free
    command: Sequence[str] = (sys.executable, "-m", "edgeserve.engines.onnx.optimise")
    seconds: float = SECONDS


def prepared(
    path: Path,
    *,
    data: Sequence[Path] = (),
    device: Device = "cpu",
    rows: bool = False,
    means: Means | None = None,
) -> Prepared:
    """The graph at ``path`` as prepared for this machine, and prepared now if need be; else the graph itself.

    ``data``: the files that the graph names for its weights. ``rows``: a prepared graph gives rows
    (engines/onnx/rows.py); callers must always pass the same value for one graph.

    Blocks while a child prepares the graph, here or for another process. An accelerator gets the graph itself, since it
    has its own layout of weights.
    """
    original = Prepared(path, tuple(data), "original")
    if device not in ("auto", "cpu"):
        return original
    try:
        return _Workbench(original, rows, means or Means()).get()
    except (OSError, _Failed) as error:
        log.warning("%s is used as it is, for it cannot be prepared for this machine: %s", path, error)
        return original


def files_at_hand(path: Path, data: Sequence[Path] = ()) -> list[Path]:
    """The files that opening the graph will most likely read. Nothing is checked, and no runtime is imported."""
    made = (path.parent / FOLDER / path.name).glob("[!.]*/*")
    return sorted(one for one in made if not one.name.endswith(NOTE)) or [path, *data]


class _Refused(Exception):
    """The runtime refused the model, or the time limit passed; another attempt would end the same way."""


class _Failed(Exception):
    """The disk is full, or a signal ended the child; a later attempt may succeed."""


class _Workbench:
    """The folder of one graph's prepared form. Methods raise OSError and _Failed."""

    def __init__(self, original: Prepared, rows: bool, means: Means) -> None:
        self._original, self._means = original, means
        self._changes = ["rows"] if rows else []
        self._files = (original.path, *original.data)
        self._folder = original.path.parent / FOLDER / original.path.name

    def get(self) -> Prepared:
        machine = self._means.machine()
        if found := self._find(machine):
            return found
        forms = self._forms()
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._locked() as lock:
            return self._find(machine) or self._make(forms, Key.of(self._files, machine), lock)

    def _find(self, machine: Machine) -> Prepared | None:
        for path in self._folder.glob(f"[!.]*/{NOTE}"):
            note = Note.read(path.parent)
            key = note and note.key.again(self._files, machine)
            if note and key:
                if key != note.key:  # the same contents with other times
                    self._renew(dataclasses.replace(note, key=key), path.parent)
                return self._in(path.parent, note.form)
        return None

    def _renew(self, note: Note, folder: Path) -> None:
        try:
            note.write(folder)
        except OSError as error:  # a store that is only readable, as in a worker: the files are hashed each time
            log.info("%s is valid, but its note cannot be renewed: %s", folder, error)

    def _in(self, folder: Path, form: Form) -> Prepared:
        if form == "original":
            return self._original
        return Prepared(folder / self._original.path.name, tuple(folder.glob("*.data")), form)

    def _forms(self) -> list[Form]:
        """Forms that the disk has room for. Weights that are external already gain only by prepacking."""
        size = sum(path.stat().st_size for path in self._files)
        wanted = [form for form in DISK_SHARE if form == "prepacked" or not self._original.data]
        free = self._means.free(self._original.path.parent)
        forms = [form for form in wanted if DISK_SHARE[form] * size + DISK_MARGIN <= free]
        if not forms:
            need = DISK_SHARE[wanted[-1]] * size + DISK_MARGIN
            raise _Failed(f"that takes {need / 1e6:.0f} MB of free disk, there are {free / 1e6:.0f} MB")
        return forms

    def _make(self, forms: Sequence[Form], key: Key, lock: int) -> Prepared:
        partial = self._folder / PARTIAL
        try:
            form, reason = self._first_accepted(forms, partial, lock)
            Note.of(partial, form, reason, key).write(partial)
            for path in self._folder.iterdir():
                if not path.name.startswith("."):  # a form for another machine, runtime or content
                    shutil.rmtree(path)
            partial.rename(self._folder / key.digest)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return self._in(self._folder / key.digest, form)

    def _first_accepted(self, forms: Sequence[Form], partial: Path, lock: int) -> tuple[Form, str]:
        """Fill ``partial`` in the first form that the runtime accepts; else leave it empty, and return the reason."""
        reasons = []
        for form in forms:
            _empty(partial)
            try:
                self._run_child(form, partial, lock)
            except _Refused as error:
                reasons.append(f"{form}: {error}")
            else:
                return form, ""
        _empty(partial)
        log.warning("%s is used as it is, for it cannot be prepared: %s", self._original.path, "; ".join(reasons))
        return "original", "; ".join(reasons)

    def _run_child(self, form: Form, partial: Path, lock: int) -> None:
        seconds = self._means.seconds + sum(path.stat().st_size for path in self._files) / BYTES_PER_SECOND
        root = str(Path(__file__).parents[3])
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
        arguments = (str(self._original.path.resolve()), str(partial.resolve()), form, *self._changes)
        command = [*self._means.command, *arguments]
        try:
            ended = subprocess.run(  # noqa: S603 - our own interpreter and module
                command, capture_output=True, timeout=seconds, env=environ, stdin=subprocess.DEVNULL, pass_fds=[lock]
            )
        except subprocess.TimeoutExpired:
            raise _Refused(f"not done within {seconds:.0f} s") from None
        said = ended.stderr.decode(errors="replace").strip()
        log.debug("preparing %s, %s: ended with %d\n%s", self._original.path, form, ended.returncode, said)
        reason = said.rpartition("\n")[2] or f"the process that prepares it ended with {ended.returncode}"
        if ended.returncode == REFUSED:
            raise _Refused(reason)
        if ended.returncode < 0:
            raise _Failed(f"the process that prepares it was ended by signal {-ended.returncode}")
        if ended.returncode:
            raise _Failed(reason)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """Lock the folder. The child inherits the lock, so that a child whose parent was killed is waited for."""
        with (self._folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock.fileno()


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
