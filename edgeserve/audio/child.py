"""Entries of the children that read and write sound files. PyAV is imported there only."""

from __future__ import annotations

import os
import socket
from typing import Any

from edgeserve.audio import decode as decoder
from edgeserve.audio import encode as encoder
from edgeserve.media import bounded
from edgeserve.processes.frames import Channel, Frame, Kind


def check(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """Check the file that the first frame passes. The result is its length, as ``decode.check`` gives it."""
    bounded.answer(sock, arguments, lambda channel, frame: decoder.check(_file(frame), **_limits(frame)))


def decode(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """Send the samples of the file that the first frame passes, a piece a frame."""

    def work(channel: Channel, frame: Frame) -> None:
        for piece in decoder.pieces(_file(frame), **_limits(frame)):
            channel.send(Kind.EVENTS, 0, None, piece)

    bounded.answer(sock, arguments, work)


def encode(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """Encode speech. The first frame names the form and the rate; each other one brings samples and gets bytes back.

    STOP asks for the last bytes.
    """

    def work(channel: Channel, frame: Frame) -> None:
        file = encoder.FORMS[frame.head["form"]].encoder(frame.head["rate"])
        while (asked := channel.receive()) is not None:
            ends = asked.kind is Kind.STOP
            channel.send(Kind.EVENTS, 0, None, file.end() if ends else file.add(bytes(asked.body)))
            if ends:
                return

    bounded.answer(sock, arguments, work)


def _file(frame: Frame) -> bytes:
    """The bytes of the file whose descriptor the frame passes. Closes the descriptor."""
    with open(frame.descriptors[0], "rb") as file:
        return os.pread(file.fileno(), frame.head["size"], 0)


def _limits(frame: Frame) -> dict[str, Any]:
    return {"max_seconds": frame.head["max_seconds"], "param": frame.head["param"]}
