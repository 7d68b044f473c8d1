"""``edgeserve health``: whether the running server is well, for containers and monitors."""

from __future__ import annotations

from edgeserve.commands import Call
from edgeserve.commands.remote import server

SECONDS = 5.0


def health(call: Call) -> int:
    """Print the server's status. Returns 0 where it answers and all engines are well; raises EdgeserveError else."""
    found = server(call).ask("GET", "/v1/health", seconds=SECONDS)
    print(f"{found['status']}, edgeserve {found['version']}")
    return 0
