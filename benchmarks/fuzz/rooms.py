"""Rooms of ours that read what a model brings: in a child process each, which a broken file may end.

A child reads one file a frame, and answers "read" or "refused" with the error's code. Anything else is a fault.
"""

from __future__ import annotations

import signal
import socket
import struct
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.fuzz.case import End, File

from edgeserve.engine import ModelSpec
from edgeserve.errors import EdgeserveError
from edgeserve.messages import Message, TextPart, Tool, ToolCall
from edgeserve.processes.allowed import engine_confinement
from edgeserve.processes.child import Child
from edgeserve.processes.frames import Channel, Kind
from edgeserve.processes.launcher import make_launcher
from edgeserve.system.confinement import confine
from edgeserve.units import MB

SHARED = (
    "llama_cpp",
    "edgeserve.engines.llama.chat",
    "edgeserve.engines.llama.template",
    "edgeserve.engines.llama.projector_shape",
    "jinja2",
)
ENTRY = "benchmarks.fuzz.rooms:serve"
PATIENCE = 12.0
"""Seconds for one file. A template may render for ten, by its own budget."""
MOST = 200 * MB
"""Growth of a child's memory while it reads one file."""
CONVERSATION = (
    Message("system", (TextPart("You are short."),)),
    Message("user", (TextPart("hello {{ 7 * 7 }}"),)),
    Message("assistant", (), (ToolCall("get_weather", '{"a": [1, 2.5, null]}', "call_1"),)),
    Message("tool", (TextPart("rain"),), (), "call_1"),
    Message("user", (TextPart("so?"),)),
)
TOOLS = (Tool("get_weather", "tells", '{"type":"object","properties":{"a":{}}}'),)


def serve(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """The entry of a child. ``arguments``: the room, and the path of the file where the room wants one."""
    room, path = ROOMS[arguments["room"]], Path(arguments["path"])
    if room is loader:
        confine(engine_confinement(_engine(path)))
    channel = Channel(sock)
    while (frame := channel.receive()) is not None:
        try:
            room(bytes(frame.body), path)
            head = {"status": "read", "code": ""}
        except EdgeserveError as error:
            head = {"status": "refused", "code": error.code}
        except Exception:
            head = {"status": "failed", "code": traceback.format_exc()}
        channel.send(Kind.DONE, 0, head)


def header(data: bytes, path: Path) -> None:
    from edgeserve.engines.llama import gguf, projector_shape

    failures = []
    for read in (gguf.read_shape, projector_shape.read_projector_shape):
        try:
            found: Any = read(path)
            if isinstance(found, projector_shape.ProjectorShape):
                found.image_bytes(0), found.savable(0)
        except EdgeserveError as error:
            failures.append(error)
    if len(failures) == 2:
        raise failures[0]


def template(data: bytes, path: Path) -> None:
    from edgeserve.engines.llama.template import ChatTemplate

    made = ChatTemplate(data.decode("utf-8", "replace"), "<s>", "</s>")
    failures = []
    for messages, tools in ((CONVERSATION, TOOLS), (CONVERSATION[:2], ())):
        try:
            made.render(messages, tools=tools)
        except EdgeserveError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def loader(data: bytes, path: Path) -> None:
    engine = _engine(path)
    engine.estimate()
    try:
        engine.open()
        engine.heat()
    finally:
        engine.close()


def _engine(path: Path) -> Any:
    from edgeserve.engines.llama.chat import LlamaChat

    options = {"context": 64, "parallel": 1}
    return LlamaChat(
        ModelSpec("llm", "broken", "edgeserve.engines.llama.chat:LlamaChat", {"model": path}, "cpu", 1, options)
    )


ROOMS: dict[str, Callable[[bytes, Path], None]] = {"header": header, "template": template, "loader": loader}
MAY_DIE = ("loader",)
"""Rooms of a runtime, which may end its own process."""


class Rooms:
    """A child for each room, started again after its death. ``folder`` holds the files that they read."""

    def __init__(self, folder: Path) -> None:
        self._launcher, self._folder = make_launcher(SHARED), folder
        self._children: dict[str, tuple[Child, Channel]] = {}
        self.deaths = 0

    def read(self, file: File) -> End:
        """Let a room read one file."""
        path = self._folder / f"{file.room}.gguf"
        path.write_bytes(file.body)
        child, channel = self._child(file.room, path)
        before = _memory(child.pid, reset=True)
        try:
            channel.send(Kind.RUN, 0, None, b"" if file.room != "template" else file.body)
            frame = channel.receive()
        except BlockingIOError:
            self._end(file.room)
            return End("hung", faults=[f"{file.room}: no end after {PATIENCE:g} s"])
        if frame is None:
            return self._died(file.room)
        end = End(frame.head["status"], frame.head["code"])
        if end.status == "failed":
            end.faults.append(f"{file.room}: {end.code.strip().splitlines()[-1]}\n{end.code}")
            end.code = ""
        if (grown := _memory(child.pid) - before) > MOST:
            end.faults.append(f"{file.room}: {grown / MB:.0f} MB of memory; {MOST / MB:.0f} MB are allowed")
        return end

    def _died(self, room: str) -> End:
        code = self._end(room)
        self.deaths += 1
        how = signal.Signals(-code).name if code is not None and code < 0 else f"code {code}"
        return End("died", how, faults=[] if room in MAY_DIE else [f"{room}: its process died, {how}"])

    def _child(self, room: str, path: Path) -> tuple[Child, Channel]:
        if room not in self._children:
            child = self._launcher.launch(ENTRY, {"room": room, "path": str(path)}, room)
            child.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(PATIENCE), 0))
            self._children[room] = child, Channel(child.socket)
        return self._children[room]

    def _end(self, room: str) -> int | None:
        child, _ = self._children.pop(room)
        code = child.wait(0.5)
        child.close()
        return code

    def close(self) -> None:
        for room in list(self._children):
            self._end(room)
        self._launcher.stop()


def _memory(pid: int, *, reset: bool = False) -> int:
    """Bytes: the resident memory now where ``reset`` begins a new peak, else the peak since. 0 without Linux' /proc."""
    proc = Path(f"/proc/{pid}")
    try:
        if reset:
            (proc / "clear_refs").write_text("5")
        status = (proc / "status").read_text()
    except OSError:
        return 0
    name = "VmRSS:" if reset else "VmHWM:"
    return int(status.partition(name)[2].split()[0]) << 10
