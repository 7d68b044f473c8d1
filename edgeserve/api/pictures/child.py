"""Entry of the children that check and decode pictures."""

from __future__ import annotations

import socket
from typing import Any

from edgeserve.api.pictures import still
from edgeserve.api.pictures.image import check_image
from edgeserve.dataclass import dataclass
from edgeserve.errors import UnsupportedMedia
from edgeserve.media import bounded
from edgeserve.named import find
from edgeserve.processes.frames import Channel, Frame, Kind


@dataclass(frozen=True, slots=True)
class Limit:
    """As ``Limits``, which would import HTTP."""

    max_image_pixels: int


def decode(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """Check the file that the first frame brings, and decode it. One frame comes back: [width, height] and RGB."""
    bounded.answer(sock, arguments, _decode)


def _decode(channel: Channel, frame: Frame) -> None:
    head, data = frame.head, bytes(frame.body)
    limit = Limit(head["max_pixels"])
    check_image(data, limit, head["param"])
    if found := still.decoded(data, limit, head["param"]):
        *size, pixels = found
        channel.send(Kind.EVENTS, 0, size, pixels)
        return
    with find(head["decoder"])(data) as decoded:
        if decoded is None:
            text = f"{head['param']} is damaged or of a kind that is not read: the decoder refuses it"
            raise UnsupportedMedia(text, param=head["param"])
        width, height, pixels = decoded
        channel.send(Kind.EVENTS, 0, [width, height], pixels)
