"""The split of a model's layers over machines. Pure functions; sizes in bytes."""

from __future__ import annotations

from collections.abc import Sequence

from edgeserve.dataclass import dataclass
from edgeserve.errors import DoesNotFit
from edgeserve.units import MB


@dataclass(frozen=True, slots=True)
class Sizes:
    """Memory of a model with a context.

    Fields:
        layers    weights of each layer
        cache     KV cache of one layer
        first     what the first machine holds beside its layers: the embeddings and the vocabulary
        last      what the last machine holds beside its layers: the output layer
        overhead  buffers of the computation, on each machine
    """

    layers: tuple[int, ...]
    cache: int = 0
    first: int = 0
    last: int = 0
    overhead: int = 0

    def fixed(self, machines: int) -> list[int]:
        """Bytes that each of so many machines holds whatever its layers are."""
        found = [self.overhead] * machines
        found[0] += self.first
        found[-1] += self.last
        return found


@dataclass(frozen=True, slots=True)
class Room:
    """A machine, and the bytes that it has free for the model."""

    name: str
    free: int


@dataclass(frozen=True, slots=True)
class Part:
    """The layers of one machine, and the bytes that they take there with cache and buffers."""

    name: str
    layers: int
    size: int


def counted(layers: int) -> str:
    """Such as "1 layer"."""
    return "1 layer" if layers == 1 else f"{layers} layers"


def allocate(layers: int, rooms: Sequence[int]) -> tuple[int, ...]:
    """Layers of each machine: in proportion to its room, at least one, the rest by the largest remainder.

    Raises ValueError for fewer layers than machines.
    """
    if not rooms or layers < len(rooms):
        raise ValueError(f"{layers} layers over {len(rooms)} machines")
    if not sum(rooms):
        rooms = [1] * len(rooms)
    total = sum(rooms)
    small = [layers * room < total for room in rooms]  # less than a layer: each gets one, the others share what is left
    if any(small):
        large = [room for room, is_small in zip(rooms, small, strict=True) if not is_small]
        shares = iter(allocate(layers - sum(small), large))
        return tuple(1 if is_small else next(shares) for is_small in small)
    counts = [layers * room // total for room in rooms]
    by_remainder = sorted(range(len(rooms)), key=lambda at: (-(layers * rooms[at] % total), at))
    for at in by_remainder[: layers - sum(counts)]:
        counts[at] += 1
    return tuple(counts)


def split(sizes: Sizes, rooms: Sequence[Room]) -> tuple[Part, ...]:
    """The parts of the machines, in their order. Raises DoesNotFit when a machine cannot hold its part."""
    machines, layers = len(rooms), len(sizes.layers)
    if layers < machines:
        raise DoesNotFit(f"the model has {counted(layers)}, too few for {machines} machines: name fewer nodes")
    fixed = sizes.fixed(machines)
    free = [max(0, room.free - taken) for room, taken in zip(rooms, fixed, strict=True)]
    parts, start = [], 0
    for room, count, taken in zip(rooms, allocate(layers, free), fixed, strict=True):
        weights = sum(sizes.layers[start : start + count])
        parts.append(Part(room.name, count, taken + weights + count * sizes.cache))
        start += count
    if short := [one for one, room in zip(parts, rooms, strict=True) if one.size > room.free]:
        raise DoesNotFit(_refusal(short, rooms, parts))
    return tuple(parts)


def _refusal(short: Sequence[Part], rooms: Sequence[Room], parts: Sequence[Part]) -> str:
    free = {room.name: room.free for room in rooms}
    lacking = "; ".join(
        f"{name} has {free[name] // MB} MB free, and its {counted(layers)} would take {-(-size // MB)} MB"
        for name, layers, size in ((one.name, one.layers, one.size) for one in short)
    )
    together = f"{sum(one.size for one in parts) // MB} MB in all, {sum(free.values()) // MB} MB free in all"
    return f"{lacking} ({together}): free memory there, name more nodes, or set a smaller context"
