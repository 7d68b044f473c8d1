"""Entries of the children that read and write sound files. PyAV is imported there only."""

from __future__ import annotations

import os
import socket
import traceback
from typing import Any

from edgeserve.audio import decode as decoder
from edgeserve.audio import encode as encoder
from edgeserve.media import bounded
from edgeserve.processes import failures
from edgeserve.processes.frames import Channel, Frame, Kind
from edgeserve.system import heap


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
    """Encode speech for many answers, each by its number. A head names the form and the rate of the answer.

    RUN brings samples, and STOP asks for the last bytes. Each gets one frame back: bytes, or an error as its head.
    CANCEL drops an answer and gets nothing.
    """
    bounded.answer(sock, arguments, _encode_all)


def _encode_all(channel: Channel, frame: Frame | None) -> None:
    files: dict[int, encoder.Encoder] = {}
    while frame is not None:
        if frame.kind is not Kind.CANCEL:
            head, made = None, b""
            try:
                made = _encoded(files, frame)
            except Exception as error:  # of this answer only
                head = failures.write_error(error, "the encoder", traceback.format_exc())
            channel.send(Kind.EVENTS, frame.number, head, made)
        if frame.kind is not Kind.RUN:
            files.pop(frame.number, None)
            heap.collect()  # FFmpeg's objects refer to each other
        frame = channel.receive()


def _encoded(files: dict[int, encoder.Encoder], frame: Frame) -> bytes:
    if frame.number not in files:
        files[frame.number] = encoder.FORMS[frame.head["form"]].encoder(frame.head["rate"])
    file = files[frame.number]
    return file.end() if frame.kind is Kind.STOP else file.add(bytes(frame.body))


def _file(frame: Frame) -> bytes:
    """The bytes of the file whose descriptor the frame passes. Closes the descriptor."""
    with open(frame.descriptors[0], "rb") as file:
        return os.pread(file.fileno(), frame.head["size"], 0)


def _limits(frame: Frame) -> dict[str, Any]:
    return {"max_seconds": frame.head["max_seconds"], "param": frame.head["param"]}
