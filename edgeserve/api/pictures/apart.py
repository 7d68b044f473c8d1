"""Pictures decoded in short-lived children: the engine gets pixels, and never a file that a client made."""

from __future__ import annotations

import threading
import weakref

from edgeserve.api.limits import Limits
from edgeserve.errors import Busy, UnsupportedMedia
from edgeserve.media.children import Children
from edgeserve.media.leash import Leash
from edgeserve.media.task import Bounds, Task
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
HELD_PICTURES = 4
"""Largest pictures that all requests together may hold decoded."""
ADVICE = "send it smaller, or as another PNG or JPEG file"


class PictureFilesApart:
    """A child for each picture. ``decoder``: the import string of a function as ``engines.llama.pixels.rgb``."""

    def __init__(self, children: Children, decoder: str) -> None:
        self._children, self._decoder = children, decoder
        self._lock = threading.RLock()  # a collection may give memory back in the midst of taking some
        self.held = 0
        """Bytes of decoded pictures, in memory that is shared with engines."""

    def read(self, data: bytes, limits: Limits, param: str, leash: Leash) -> ImagePart:
        if not data:
            raise UnsupportedMedia(f"{param} is empty", param=param)
        self._take(0, limits)
        bounds = Bounds(MEMORY, CPU + limits.max_image_pixels // CPU_PIXELS)
        task = Task(f"{CHILD}:decode", "picture decoder", param, bounds, param, ADVICE)
        head = {"max_pixels": limits.max_image_pixels, "param": param, "decoder": self._decoder}
        with self._children.start(task, leash) as helper:
            helper.send(head, data)
            frame = helper.receive()
            size = _size(frame, limits.max_image_pixels)
            if size is None:
                raise helper.nonsense()
        self._take(len(frame.body), limits)
        weakref.finalize(frame.body, self._give_back, len(frame.body))
        return ImagePart(frame.body, param, size[0] * size[1], size)

    def _take(self, size: int, limits: Limits) -> None:
        most = HELD_PICTURES * limits.max_image_pixels * RGB
        with self._lock:
            if self.held + max(size, 1) > most:
                text = f"the requests being served hold {self.held / MB:.0f} MB of pictures; the limit is"
                raise Busy(f"{text} {most / MB:.0f} MB: try again when some are done", retry_after=2)
            self.held += size

    def _give_back(self, size: int) -> None:
        with self._lock:
            self.held -= size

    def close(self) -> None:
        self._children.close()


def _size(frame: Frame, most: int) -> tuple[int, int] | None:
    """Width and height; None for a frame that holds no picture of at most so many pixels."""
    match frame.head:
        case [int(width), int(height)] if width > 0 and len(frame.body) == RGB * width * height <= RGB * most:
            return width, height
    return None
