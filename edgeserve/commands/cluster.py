"""``edgeserve cluster status`` and ``caddy``: the state of several nodes, and a balancer before them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgeserve.cluster.asgi import STATUS
from edgeserve.cluster.peers import Peer, read_peer, read_peers
from edgeserve.cluster.snapshot import Node, Snapshot, from_json, silent
from edgeserve.commands import Call
from edgeserve.commands.remote import Server
from edgeserve.engine import Rung
from edgeserve.errors import ConfigError, EdgeserveError
from edgeserve.logs import escaped
from edgeserve.settings import ENV_PREFIX
from edgeserve.terminal import human_size, table

HEADS = ("node", "pressure", "budget", "used", "requests", "hot", "warm")


def status(call: Call) -> int:
    """Print the snapshot of the nodes. Returns 1 when a node does not answer."""
    peers, key = read_peers(call.args.nodes), call.environ.get(f"{ENV_PREFIX}API_KEY", "")
    problems: Mapping[str, str] = {}
    if bool(peers) == bool(call.args.url):
        raise ConfigError("name the nodes, as in `edgeserve cluster status box1 box2:8080`, or a cluster with --url")
    if call.args.url:
        body = Server(read_peer(call.args.url).url, key).ask("GET", STATUS)
        found, problems = from_json(body), silent(body)
    else:
        found, problems = asyncio.run(_look(peers, key))
    print(json.dumps(found.as_json(problems), indent=2) if call.args.json else as_text(found, problems))
    return 1 if problems else 0


async def _look(peers: Sequence[Peer], key: str) -> tuple[Snapshot, Mapping[str, str]]:
    from edgeserve.cluster.reader import Watch, make_client

    async with make_client(key) as client:
        watch = Watch(peers, client)
        return await watch.look(), watch.problems


def as_text(snapshot: Snapshot, problems: Mapping[str, str]) -> str:
    lines = [table(HEADS, [_row(one) for one in snapshot.nodes])] if snapshot.nodes else []
    lines += [escaped(f"{name}: {reason}") for name, reason in problems.items()]
    return "\n".join([*lines, f"pressure of all nodes: {snapshot.pressure.name}"])


def _row(node: Node) -> tuple[str, ...]:
    hot, warm = (
        ", ".join(one.name for one in node.models if one.rung is rung) or "-" for rung in (Rung.HOT, Rung.WARM)
    )
    sizes = human_size(node.budget), human_size(node.used)
    return escaped(node.name), node.pressure.name, *sizes, str(node.requests), escaped(hot), escaped(warm)


def caddy(call: Call) -> int:
    """Write the Caddyfile."""
    from edgeserve.api.routes import ENTRIES
    from edgeserve.cluster.caddyfile import caddyfile

    owner = [one.path for one in ENTRIES if one.owner]
    text = caddyfile(read_peers(call.args.nodes), read_peer(call.args.listen), owner)
    if call.args.out == "-":
        print(text, end="")
        return 0
    path = Path(call.args.out)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise EdgeserveError(f"{path} cannot be written: {error.strerror}") from error
    print(f"{path}: start it with `caddy run --config {path} --adapter caddyfile`")
    return 0
