"""The entries of worker processes."""

from __future__ import annotations

import importlib
import logging
import socket
from typing import Any

from edgeserve.engine import ModelSpec
from edgeserve.hosts.guest import Guest
from edgeserve.hosts.worker_log import ToServer
from edgeserve.named import make_engine
from edgeserve.processes import codec
from edgeserve.processes.allowed import engine_confinement
from edgeserve.processes.frames import Channel
from edgeserve.system import heap, turns
from edgeserve.system.confinement import confine


def main(connection: socket.socket, arguments: dict[str, Any]) -> None:
    """The entry of a worker. Arguments: the model's ``spec``, and the ``level`` of log lines to send."""
    heap.tune()
    turns.shorten()  # requests are prepared, and grammars followed, beside the thread that makes tokens
    channel = _channel(connection, arguments)
    with heap.uncollected():
        engine = make_engine(_spec(arguments))
        guest = Guest(channel, engine, confine(engine_confinement(engine)).words)
    guest.serve()


def prepare(connection: socket.socket, arguments: dict[str, Any]) -> None:
    """The entry of a child that prepares a model for this machine, if that is not done. Arguments as of ``main``.

    It writes beside the model, which no worker may do.
    """
    _channel(connection, arguments)
    spec = _spec(arguments)
    engine_prepares = getattr(importlib.import_module(spec.engine.partition(":")[0]), "prepare", None)
    if engine_prepares is not None:
        engine_prepares(spec, lambda done, total: None)


def _channel(connection: socket.socket, arguments: dict[str, Any]) -> Channel:
    """The line to the serving process; log lines take it from now on."""
    channel = Channel(connection)
    root = logging.getLogger()
    root.handlers[:] = [ToServer(channel)]
    root.setLevel(arguments["level"])
    return channel


def _spec(arguments: dict[str, Any]) -> ModelSpec:
    spec = codec.read(arguments["spec"], memoryview(b""))
    if not isinstance(spec, ModelSpec):
        raise TypeError("a worker needs the spec of its model")
    return spec
