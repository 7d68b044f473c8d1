"""Pictures decoded in short-lived children: the engine gets pixels, and never a file that a client made."""

from __future__ import annotations

import mmap
import threading
import weakref
from collections import Counter

from edgeserve import clients
from edgeserve.api.limits import Limits
from edgeserve.errors import Busy, UnsupportedMedia
from edgeserve.media.children import Children
from edgeserve.media.leash import Leash
from edgeserve.media.task import Bounds, Task
from edgeserve.memory.traffic import Own, Traffic, own
from edgeserve.messages import ImagePart
from edgeserve.processes.frames import Frame
from edgeserve.units import MB

CHILD = "edgeserve.api.pictures.child"
"""The module of the children's entry."""
RGB = 3
"""Bytes a pixel."""
MEMORY = 512 * MB
"""Bytes that a child may take. The largest picture takes 160 MB while it is decoded, and 60 MB afterwards."""
CPU, CPU_PIXELS = 3, 4_000_000
"""Seconds of processor time: so many, and one more for so many pixels of the largest picture."""
HELD_PICTURES, OWN_PICTURES = 4, 3
"""Largest pictures that all requests together, and those of one client, may hold decoded.

A request holds its pictures until the engine has read them. So one client leaves room for a picture of another, and
still has room for the pictures that one request may bring.
"""
ADVICE = "send it smaller, or as another PNG or JPEG file"


class _Pixels(bytearray):
    """The memory of a small picture. Its end can be noticed, as that of bytes cannot."""


class PictureFilesApart:
    """A child for each picture. ``decoder``: import string of a function as ``edgeserve.engines.llama.pixels.rgb``.

    ``traffic`` counts the bytes of decoded pictures.
    """

    def __init__(self, children: Children, decoder: str, traffic: Traffic | None = None) -> None:
        self._children, self._decoder, self._traffic = children, decoder, traffic or Traffic()
        self._lock = threading.RLock()  # a collection may give memory back in the midst of taking some
        self._own: Counter[tuple[str, ...]] = Counter()
        """Bytes of decoded pictures by key, else by site, in memory that is shared with engines."""

    @property
    def held(self) -> int:
        """Bytes of all decoded pictures."""
        return self._own.total()

    def read(self, data: bytes, limits: Limits, param: str, leash: Leash) -> ImagePart:
        if not data:
            raise UnsupportedMedia(f"{param} is empty", param=param)
        client = clients.current.get().groups[0]
        mine = own.get()
        self._take(0, limits, client, mine)
        bounds = Bounds(MEMORY, CPU + limits.max_image_pixels // CPU_PIXELS)
        task = Task(f"{CHILD}:decode", "picture decoder", param, bounds, param, ADVICE)
        head = {"max_pixels": limits.max_image_pixels, "param": param, "decoder": self._decoder}
        with self._children.start(task, leash) as helper:
            helper.send(head, data)
            frame = helper.receive()
            size = _size(frame, limits.max_image_pixels)
            if size is None:
                raise helper.nonsense()
        self._take(len(frame.body), limits, client, mine)
        memory = frame.body.obj if isinstance(frame.body.obj, mmap.mmap) else _Pixels(frame.body)
        weakref.finalize(memory, self._give_back, len(frame.body), client, mine)
        return ImagePart(memoryview(memory), param, size[0] * size[1], size)

    def _take(self, size: int, limits: Limits, client: tuple[str, ...], mine: Own) -> None:
        """Count bytes of a picture; 0 asks only whether there is room. Raises Busy."""
        largest = limits.max_image_pixels * RGB
        most, share = HELD_PICTURES * largest, OWN_PICTURES * largest
        with self._lock:
            held, key = self.held, self._own[client]
            if held + max(size, 1) > most or key + max(size, 1) > share:
                text = f"the requests being served hold {held / MB:.0f} MB of pictures, {key / MB:.0f} MB of them for"
                text += f" you, and the limits are {most / MB:.0f} and {share / MB:.0f} MB"
                raise Busy(f"{text}: try again when some are done", retry_after=2)
            if size:
                self._own[client] += size
                mine.pictures += size
                self._traffic.come(size)

    def _give_back(self, size: int, client: tuple[str, ...], mine: Own) -> None:
        with self._lock:
            mine.pictures -= size
            self._traffic.go(size)
            self._own[client] -= size
            if not self._own[client]:
                del self._own[client]

    def close(self) -> None:
        self._children.close()


def _size(frame: Frame, most: int) -> tuple[int, int] | None:
    """Width and height; None for a frame that holds no picture of at most so many pixels."""
    match frame.head:
        case [int(width), int(height)] if width > 0 and len(frame.body) == RGB * width * height <= RGB * most:
            return width, height
    return None
