"""Figures that are read when somebody asks, by the names of ``families.READ``."""

from __future__ import annotations

from collections.abc import Iterable

from edgeserve.engine import Rung
from edgeserve.figures.series import Labels
from edgeserve.memory.amount import NOTHING
from edgeserve.memory.entry import Entry
from edgeserve.residency.gate import Gate
from edgeserve.residency.pool import Pool

Sample = tuple[Labels, float]


def readings(pool: Pool) -> dict[str, list[Sample]]:
    """Samples by family, from the accounts and the latest reading of memory: nothing is measured. Any thread."""
    gates = list(pool.gates.values())
    found: dict[str, list[Sample]] = {
        name: []
        for name in ("requests_running", "requests_waiting", "engine_rung", "engine_memory_bytes", "model_info")
    }
    found |= {name: [] for name in ("worker_restarts_total", "drafted_tokens_total", "accepted_tokens_total")}
    shown: set[str] = set()
    for gate in gates:
        for name, samples in _of_gate(gate):
            found[name] += samples
        if (entry := pool.governor.accounts.of(gate)) is not None:
            found["engine_memory_bytes"] += memory_of(gate, entry, shown)
    now = pool.governor.gauge.latest()
    found["memory_budget_bytes"] = [((), now.budget.usable)]
    found["memory_used_bytes"] = [((), now.readings.unreclaimable)]
    found["memory_available_bytes"] = [((), now.readings.available)]
    found["pressure_level"] = [((), now.level)]
    return found


def _of_gate(gate: Gate) -> Iterable[tuple[str, list[Sample]]]:
    model = gate.spec.job, gate.id
    work = gate.work
    running = sum(one.started is not None for one in work)
    yield "requests_running", [(model, running)]
    yield "requests_waiting", [(model, len(work) - running)]
    yield "engine_rung", [(model, gate.rung)]
    yield "model_info", [((*model, gate.spec.name), 1)]
    if isinstance(deaths := gate.host.report.get("deaths"), int):
        yield "worker_restarts_total", [(model, deaths)]
    if slots := gate.host.slot_states():
        yield "drafted_tokens_total", [(model, sum(one.drafted for one in slots))]
        yield "accepted_tokens_total", [(model, sum(one.accepted for one in slots))]


def memory_of(gate: Gate, entry: Entry, shown: set[str]) -> Iterable[Sample]:
    """Bytes by kind. Models that map the same file show it once: ``shown`` has the files of those before."""
    held, cached = NOTHING, NOTHING
    if gate.rung is not Rung.COLD or entry.active:  # a cold engine may read the disk to know what it could save
        held, cached = entry.held, entry.cached
    weights = str(gate.spec.files.get("model", gate.id))
    mapped = 0 if weights in shown else held.mapped
    if held.mapped:
        shown.add(weights)
    sizes = {
        "private": max(0, held.private - cached.private),
        "prefix_cache": cached.private,
        "mapped": mapped,
        "device": held.device,
    }
    return [((gate.spec.job, gate.id, kind), size) for kind, size in sizes.items()]
