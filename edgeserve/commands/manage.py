"""``edgeserve ps``, ``load``, ``unload``, ``rm`` and ``reload``: the models of the running server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgeserve.commands import Call
from edgeserve.commands.remote import LOAD_SECONDS, at, server
from edgeserve.splits.plan import counted
from edgeserve.terminal import human_size, human_time, table
from edgeserve.units import MB

HEADS = ("name", "job", "rung", "memory", "requests", "idle", "default", "pinned")

Row = Mapping[str, Any]


def ps(call: Call) -> int:
    """Print the models that the server serves, with their memory and requests."""
    print(models_table(server(call).ask("GET", "/memory/models")) or "The server serves no model.")
    return 0


def models_table(models: Sequence[Row]) -> str:
    """Rows of GET /memory/models as text, then the parts on other machines; empty without models."""
    parts = [
        f"{part['model_name']}: {counted(part['layers'])} on {part['node']}, {human_size(part['memory_mb'] * MB)}"
        for one in models
        for part in one.get("nodes", ())
    ]
    return "\n".join([table(HEADS, [_row(one) for one in models]), *parts]) if models else ""


def _row(one: Row) -> tuple[str, ...]:
    held = human_size(one["memory_mb"] * MB) if one["memory_mb"] else "-"
    idle = "-" if one["leases"] or not one["use_count"] else human_time(one["idle_seconds"])
    default, pinned = ("yes" if one[name] else "-" for name in ("default", "pinned"))
    return one["model_name"], one["model_type"], one["rung"], held, str(one["leases"] or "-"), idle, default, pinned


def load(call: Call) -> int:
    """Bring a model up to hot or warm, and wait until it is there."""
    body = {"model": call.args.name, "to": call.args.to}
    done = server(call).ask("POST", "/admin/load", body, seconds=LOAD_SECONDS)
    print(f"{done['model']}: {done['rung']}")
    return 0


def unload(call: Call) -> int:
    """Let a model step down to cold or warm."""
    done = server(call).ask("POST", "/admin/unload", {"model": call.args.name, "to": call.args.to})
    print(f"{done['model']}: {done['rung']}")
    return 0


def rm(call: Call) -> int:
    """Delete a model's files, unless the server serves it."""
    done = server(call).ask("DELETE", at("/admin/models", call.args.name))
    print(f"{done['model']}: removed")
    return 0


def reload(call: Call) -> int:
    """Let the server read its settings again, and print the changes. Returns 1 when some of them need a restart."""
    done = server(call).ask("POST", "/admin/reload", seconds=LOAD_SECONDS)
    lines = [f"{word}: {', '.join(done[word])}" for word in ("added", "removed", "replaced", "changed") if done[word]]
    print("\n".join(lines) or f"{done['source']}: nothing to change")
    if waits := done["needs_restart"]:
        print(f"only a restart of the server changes: {', '.join(waits)}")
    return 1 if waits else 0
