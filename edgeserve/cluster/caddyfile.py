"""A Caddyfile that shares the requests of clients between nodes: Caddy carries them, and this text configures Caddy.

Directives: https://caddyserver.com/docs/caddyfile/directives/reverse_proxy
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from edgeserve.cluster.peers import Peer
from edgeserve.errors import ConfigError

HEALTH = "/v1/health"
"""The route that a node answers without a key."""
CONNECT = "1s"
"""Longest time to connect to a node."""
TRY = "10s"
"""Time for which Caddy tries other nodes when none takes the connection."""
AGAIN = "100ms"
"""Pause between two tries."""
SHUNNED = "5s"
"""Time for which a node gets nothing after a failed connection. The health checks take over from there."""
CHECK_EVERY, CHECK_WITHIN = "2s", "1s"

TEMPLATE = """\
# Written by `edgeserve cluster caddy`. Start it with: caddy run --config FILE --adapter caddyfile
{{
\tadmin off
\tauto_https off
\tpersist_config off
}}

http://:{port} {{
\tbind {host}
\t# These routes change one node. A balancer cannot know which one is meant: ask the node itself.
\t@managing path {managing}
\thandle @managing {{
\t\theader Content-Type application/json
\t\trespond {refusal} 403
\t}}

\thandle {{
\t\treverse_proxy {{
\t\t\tto {nodes}
\t\t\tlb_policy least_conn
\t\t\tlb_try_duration {try_for}
\t\t\tlb_try_interval {again}
\t\t\tfail_duration {shunned}
\t\t\thealth_uri {health}
\t\t\thealth_interval {every}
\t\t\thealth_timeout {within}
\t\t\t# No flush_interval: Caddy sends streams at once anyway. With -1, an answer goes on after its client has gone.
\t\t\ttransport http {{
\t\t\t\tdial_timeout {connect}
\t\t\t}}
\t\t}}
\t}}

\t# No node takes the request.
\thandle_errors 502 503 504 {{
\t\theader Content-Type application/json
\t\theader Retry-After 5
\t\trespond {nobody} 503
\t}}
}}
"""


def caddyfile(nodes: Sequence[Peer], listen: Peer, owner: Iterable[str]) -> str:
    """The file for these nodes. ``owner``: paths, in Starlette's form, that only the owner of a node may use.

    A request goes to the node with the fewest connections. Raises ConfigError for nodes that Caddy cannot serve
    together.
    """
    if not nodes:
        raise ConfigError("a balancer needs the address of at least one node")
    if len({one.scheme for one in nodes}) > 1:
        raise ConfigError("nodes with http and with https cannot share one balancer: name all of them alike")
    if listen.address in {one.address for one in nodes}:
        raise ConfigError(f"--listen {listen.address} is the address of a node: the balancer needs another one")
    return TEMPLATE.format(
        host=listen.host,
        port=listen.port,
        managing=" ".join(sorted({pattern for one in owner for pattern in _patterns(one)})),
        refusal=_body("ask_the_node", "this route changes one node: ask the node itself, not the balancer"),
        nobody=_body("no_node", "no node takes requests now: try again"),
        nodes=" ".join(one.url for one in nodes),
        try_for=TRY,
        again=AGAIN,
        shunned=SHUNNED,
        health=HEALTH,
        every=CHECK_EVERY,
        within=CHECK_WITHIN,
        connect=CONNECT,
    )


def _patterns(path: str) -> tuple[str, ...]:
    """A path as Caddy matches it. Nodes ignore a slash at its end; a parameter stands for anything."""
    fixed, parameter, _ = path.partition("{")
    return (f"{fixed}*",) if parameter else (fixed, f"{fixed}/")


def _body(code: str, message: str) -> str:
    """An error in the shape of OpenAI's dialect, as one token of the Caddyfile."""
    return f"`{json.dumps({'error': {'message': message, 'type': 'server_error', 'code': code}})}`"
