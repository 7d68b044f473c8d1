"""Processes in place of llama.cpp's RPC server, and the launcher that starts them."""

from __future__ import annotations

import socket
import threading
from typing import Any

from support.rpc_server import answer_all

from edgeserve.processes.child import Child
from edgeserve.processes.spawner import Spawner

WORDS = "its port is in use"


def serves(connection: socket.socket, arguments: dict[str, Any]) -> None:
    with socket.create_server((arguments["host"], arguments["port"])) as listener:
        answer_all(listener)


def listens(connection: socket.socket, arguments: dict[str, Any]) -> None:
    with socket.create_server((arguments["host"], arguments["port"])):
        threading.Event().wait()


def says(connection: socket.socket, arguments: dict[str, Any]) -> None:
    connection.sendall(WORDS.encode())
    raise SystemExit(1)


def dies(connection: socket.socket, arguments: dict[str, Any]) -> None:
    raise SystemExit(3)


def waits(connection: socket.socket, arguments: dict[str, Any]) -> None:
    threading.Event().wait()


class Instead(Spawner):
    """Starts ``entry`` whatever is asked for."""

    def __init__(self, entry: str) -> None:
        super().__init__()
        self.entry = entry

    def launch(self, entry: str, arguments: dict[str, object], name: str) -> Child:
        return super().launch(f"{__name__}:{self.entry}", arguments, name)
