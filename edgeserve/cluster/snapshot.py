"""The state of all nodes at one moment, as they report it themselves: memory, pressure, models and their requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engine import Rung
from edgeserve.errors import EdgeserveError
from edgeserve.memory.pressure import Level
from edgeserve.units import MB

LARGEST = 1 << 60
"""Largest number that a node may report; of memory, in bytes."""
LONGEST = 4096
"""Characters of a name: a model may be named by its path."""


@dataclass(frozen=True, slots=True)
class ModelState:
    """One model on one node.

    Fields:
        id        name of its table on the node
        name      name of the model
        job       its job
        rung      cold, warm or hot
        expected  bytes that it takes when it is hot
        held      bytes that it holds now
        requests  requests that run or wait
        slots     requests that it answers at the same time
        default   whether it serves the requests of its job that name no model
        pinned    whether it never steps down
    """

    id: str
    name: str
    job: str
    rung: Rung = Rung.COLD
    expected: int = 0
    held: int = 0
    requests: int = 0
    slots: int = 1
    default: bool = False
    pinned: bool = False

    @property
    def need(self) -> int:
        """Bytes that the way up to hot takes beside those that the model holds."""
        return 0 if self.rung is Rung.HOT else max(0, self.expected - self.held)


@dataclass(frozen=True, slots=True)
class Node:
    """One box. ``budget``: bytes that all its engines together may take. ``used``: bytes that they hold."""

    name: str
    budget: int
    used: int
    pressure: Level = Level.LOW
    models: tuple[ModelState, ...] = ()
    requests: int = field(init=False)
    """Requests that run or wait, on all models."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "requests", sum(one.requests for one in self.models))

    @property
    def room(self) -> int:
        """Bytes that no engine holds."""
        return max(0, self.budget - self.used)

    def idle(self, but: ModelState) -> int:
        """Bytes of engines that could step down for the model ``but``: without a request, and not pinned."""
        return sum(one.held for one in self.models if not one.requests and not one.pinned and one.id != but.id)

    def find(self, name: str, jobs: Sequence[str]) -> ModelState | None:
        """The model of that name or table; for an empty name the default of the first of ``jobs`` that has one."""
        if name:
            return next((one for one in self.models if name in (one.name, one.id)), None)
        for job in jobs:
            if found := [one for one in self.models if one.job == job]:
                return next((one for one in found if one.default), found[0])
        return None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All nodes that answer."""

    nodes: tuple[Node, ...] = ()

    @property
    def pressure(self) -> Level:
        """The largest pressure of all nodes; LOW without a node."""
        return max((one.pressure for one in self.nodes), default=Level.LOW)

    def as_json(self, silent: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
        """Sizes in bytes, levels and rungs by their names. ``silent``: nodes that do not answer, and why."""
        nodes = [_as_json(one) for one in self.nodes]
        return {"pressure": self.pressure.name, "nodes": nodes, "silent": dict(silent)}


def read_node(name: str, stats: Mapping[str, Any], models: Iterable[Mapping[str, Any]]) -> Node:
    """A node from its GET /memory/stats and GET /memory/models (docs/api/memory.md).

    Raises EdgeserveError for other answers, such as those of another server.
    """
    try:
        return Node(
            name=name,
            budget=_count(stats["budget_usable_mb"], MB),
            used=_count(stats["allocated_mb"], MB),
            pressure=Level[stats["pressure_level"]],
            models=tuple(_model(one) for one in models),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EdgeserveError(
            f"{name} does not answer as an edgeserve of this version ({type(error).__name__}: {error}); "
            "is another server at this address?"
        ) from None


def collect(reports: Sequence[Mapping[str, Any] | BaseException]) -> dict[str, Any]:
    """``Snapshot.as_json`` of nodes by their own reports (``NodeReplica``). An error in place of a report is a silent
    node, which has no name but its number."""
    nodes, silent_ones = [], {}
    for number, one in enumerate(reports, 1):
        try:
            if isinstance(one, BaseException):
                raise one
            nodes.append(read_node(one["url"], one["stats"], one["models"]))
        except Exception as error:  # an error of the engine that carries the reports, or a report that is none
            silent_ones[f"node {number} of {len(reports)}"] = f"{type(error).__name__}: {error}"
    return Snapshot(tuple(nodes)).as_json(silent_ones)


def _model(row: Mapping[str, Any]) -> ModelState:
    return ModelState(
        id=_name(row["id"]),
        name=_name(row["model_name"]),
        job=_name(row["model_type"]),
        rung=Rung[str(row["rung"]).upper()],
        expected=_count(row["estimated_mb"], MB),
        held=_count(row["memory_mb"], MB),
        requests=_count(row["leases"]),
        slots=max(1, _count(row["slots"])),
        default=bool(row["default"]),
        pinned=bool(row["pinned"]),
    )


def _name(value: object) -> str:
    """A name of a node. Raises ValueError for what cannot be passed on: half a surrogate pair, or a book."""
    if not isinstance(value, str) or len(value) > LONGEST:
        raise ValueError(f"expected a name of {LONGEST} characters at most, not {repr(value)[:40]}")
    value.encode()
    return value


def _count(value: object, unit: int = 1) -> int:
    """A number of a node, in units. Raises ValueError for what is none: a node may answer anything."""
    if not isinstance(value, int | float) or not 0 <= value * unit <= LARGEST:
        raise ValueError(f"expected a number from 0 to {LARGEST // unit}, not {repr(value)[:40]}")
    return int(value * unit)


def _as_json(node: Node) -> dict[str, Any]:
    models = [dataclasses.asdict(one) | {"rung": one.rung.name.lower()} for one in node.models]
    return dataclasses.asdict(node) | {"pressure": node.pressure.name, "room": node.room, "models": models}


def from_json(body: Mapping[str, Any]) -> Snapshot:
    """The snapshot that ``as_json`` wrote. Raises EdgeserveError for anything else."""
    try:
        return Snapshot(tuple(_from_json(one) for one in body["nodes"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EdgeserveError(f"this is no snapshot of a cluster ({type(error).__name__}: {error})") from None


def silent(body: Mapping[str, Any]) -> Mapping[str, str]:
    """The nodes that do not answer, from the same JSON, and why. Raises EdgeserveError for anything else."""
    found = body.get("silent", {})
    if not isinstance(found, Mapping):
        raise EdgeserveError("this is no snapshot of a cluster: its silent nodes are no object")
    return {str(name): str(reason) for name, reason in found.items()}


def _from_json(row: Mapping[str, Any]) -> Node:
    models = tuple(_model_from_json(one) for one in row["models"])
    return Node(_name(row["name"]), _count(row["budget"]), _count(row["used"]), Level[row["pressure"]], models)


def _model_from_json(row: Mapping[str, Any]) -> ModelState:
    names = {name: _name(row[name]) for name in ("id", "name", "job")}
    counts = {name: _count(row[name]) for name in ("expected", "held", "requests", "slots")}
    flags = {name: bool(row[name]) for name in ("default", "pinned")}
    return ModelState(**names, **counts, **flags, rung=Rung[str(row["rung"]).upper()])  # type: ignore[arg-type]
