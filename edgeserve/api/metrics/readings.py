"""Figures that are read when somebody asks, by the names of ``families.READ``."""

from __future__ import annotations

from collections.abc import Iterable

from edgeserve.figures.series import Labels
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
    for gate in gates:
        for name, samples in _of_gate(gate, pool.governor.accounts.of(gate)):
            found[name] += samples
    now = pool.governor.judgement()
    found["memory_budget_bytes"] = [((), now.budget.usable)]
    found["memory_used_bytes"] = [((), now.readings.unreclaimable)]
    found["memory_available_bytes"] = [((), now.readings.available)]
    found["pressure_level"] = [((), now.level)]
    return found


def _of_gate(gate: Gate, entry: Entry | None) -> Iterable[tuple[str, list[Sample]]]:
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
    if entry is not None:
        held, cached = entry.held, entry.cached
        sizes = {
            "private": held.private - cached.private,
            "prefix_cache": cached.private,
            "mapped": held.mapped,
            "device": held.device,
        }
        yield "engine_memory_bytes", [((*model, kind), max(0, size)) for kind, size in sizes.items()]
