"""Arguments of ``edgeserve cluster``: one parser for each of its commands."""

from __future__ import annotations

import argparse
from typing import Any

from edgeserve.commands.arguments import AddCommand, positive


def add_cluster(commands: Any, add: AddCommand) -> None:
    text = "several boxes: their state, a balancer before them, replicas on Ray Serve"
    parser = commands.add_parser("cluster", help=text, description=f"{text[0].upper()}{text[1:]}.")
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for one in (_status, _caddy, _start, _join, _stop):
        one(inner, add)


def add_rpc_worker(commands: Any, add: AddCommand) -> None:
    text = "offer this machine's memory for models that another machine splits"
    parser = add(commands, "rpc-worker", "rpc_worker:rpc_worker", text)
    parser.add_argument(
        "--host", required=True, metavar="ADDRESS", help="IPv4 address of this machine in a private network"
    )
    parser.add_argument("--port", type=int, default=50052, help="port to listen on (50052)")
    parser.add_argument("--memory-mb", type=positive, metavar="N", help="memory to offer (the server's budget)")


def _status(commands: Any, add: AddCommand) -> None:
    parser = add(commands, "status", "cluster:status", "show the memory, pressure and models of all nodes")
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="address of a node, such as box2:8080")
    parser.add_argument("--url", metavar="URL", help="address of a cluster on Ray, which knows its nodes")
    parser.add_argument("--json", action="store_true", help="print the snapshot as JSON")


def _caddy(commands: Any, add: AddCommand) -> None:
    parser = add(commands, "caddy", "cluster:caddy", "write a Caddyfile that shares requests between nodes")
    parser.add_argument("nodes", nargs="+", metavar="NODE", help="address of a node, such as box2:8080")
    parser.add_argument(
        "--listen", default="127.0.0.1:8000", metavar="ADDRESS", help="address that clients use (127.0.0.1:8000)"
    )
    parser.add_argument("-o", "--out", default="-", metavar="FILE", help="file to write (stdout)")


def _start(commands: Any, add: AddCommand) -> None:
    parser = add(commands, "start", "cluster_ray:start", "start the head of a cluster on Ray Serve, on this machine")
    _node(parser)
    parser.add_argument("--port", type=int, default=6379, help="port at which other nodes join (6379)")
    parser.add_argument("--listen", metavar="ADDRESS", help="address that clients use (port 8000 of --host)")
    parser.add_argument("--min", type=positive, default=1, metavar="N", help="least number of nodes that serve (1)")
    parser.add_argument("--max", type=positive, default=8, metavar="N", help="largest number of nodes that serve (8)")


def _join(commands: Any, add: AddCommand) -> None:
    parser = add(commands, "join", "cluster_ray:join", "let this machine join a cluster")
    parser.add_argument("head", metavar="HEAD", help="address of the head, such as 10.0.0.1:6379")
    _node(parser)


def _stop(commands: Any, add: AddCommand) -> None:
    add(commands, "stop", "cluster_ray:stop", "end Ray on this machine")


def _node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="IP address of this machine in the cluster (127.0.0.1)"
    )
    parser.add_argument("--token-file", metavar="FILE", help="file with the token that all nodes share")
