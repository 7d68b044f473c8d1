"""A fake chat engine whose model lies on several machines: it becomes hot only once its parts are placed."""

from __future__ import annotations

from collections.abc import Sequence

from edgeserve.engine import ModelSpec
from edgeserve.engines.fake.chat import FakeChat
from edgeserve.errors import EngineFailure
from edgeserve.splits.plan import Sizes
from edgeserve.units import MB

LAYERS = 10


class SplitChat(FakeChat):
    """Each layer takes 10 MB, and 1 MB for each 1,024 tokens of context. Options: ``nodes``, ``context``."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.placed = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        nodes = self.spec.options["nodes"]
        assert isinstance(nodes, tuple | list)
        return tuple(nodes)

    def contexts(self) -> tuple[int, ...]:
        return 4096, 2048, 1024

    def sizes(self, context: int) -> Sizes:
        return Sizes((10 * MB,) * LAYERS, cache=context // 1024 * MB)

    def place(self, endpoints: Sequence[str], layers: Sequence[int], context: int) -> None:
        self.placed = f"{layers} {endpoints} {context}"

    def heat(self) -> None:
        if not self.placed:
            raise EngineFailure("nobody has placed the layers")
        super().heat()
