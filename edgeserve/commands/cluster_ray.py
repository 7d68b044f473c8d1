"""``edgeserve cluster start``, ``join`` and ``stop``: Ray's own commands, with a token and on named addresses."""

from __future__ import annotations

import importlib.util
import ipaddress
import json
import os
import secrets
import socket
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgeserve import listening
from edgeserve.cluster.peers import Peer, bracketed, read_peer
from edgeserve.commands import Call, supply
from edgeserve.errors import ConfigError, EdgeserveError
from edgeserve.processes.interpreter import module_command
from edgeserve.settings import ENV_PREFIX

TOKEN_FILE = "cluster-token"  # noqa: S105 - the name of a file
START_SECONDS = 180.0
"""Longest time for Ray to start, and for the first node to serve."""
HEAD_SECONDS = 5.0
"""Longest time to connect to a head."""
HEAD = json.dumps({"edgeserve_head": 1})
RAY = module_command("ray.scripts.scripts")


def start(call: Call) -> int:
    """Start the head of a cluster on this machine, and the door and the first node on it."""
    _need_ray()
    args, key = call.args, call.environ.get(f"{ENV_PREFIX}API_KEY", "")
    host = _host(args.host)
    listen = read_peer(args.listen or f"{bracketed(host)}:8000")
    _need_key(key, host, listen)
    if args.min > args.max:
        raise ConfigError(f"--min {args.min} --max {args.max}: expected no more than --max")
    _need_port(host, args.port, "--port N")
    _need_port(listen.host.strip("[]"), listen.port, "--listen")
    token = _private(_token(call, make=True))
    _need_models(call)
    environ = _environ(call, token, host)
    head = ["--head", "--port", str(args.port), "--resources", HEAD, "--include-dashboard", "false"]
    _ray(["start", *head, *_own(host)], environ)
    try:
        _deploy(args.port, host, listen, {"least": args.min, "most": args.max, "key": key}, environ)
    except EdgeserveError as error:
        raise EdgeserveError(f"{error.message}; Ray runs on: end it with `edgeserve cluster stop`") from error
    print(f"the cluster serves on {listen.url}; show it with: edgeserve cluster status --url {listen.url}")
    print(f"on the next box, with a copy of {token} and the same {ENV_PREFIX}API_KEY:")
    print(f"  edgeserve cluster join {bracketed(host)}:{args.port} --host ITS_ADDRESS --token-file {token.name}")
    return 0


def join(call: Call) -> int:
    """Let this machine join the cluster at an address."""
    _need_ray()
    host, head = _host(call.args.host), read_peer(call.args.head)
    _need_key(call.environ.get(f"{ENV_PREFIX}API_KEY", ""), host)
    token = _private(_token(call, make=False))
    _need_head(head)
    _need_models(call)
    environ = _environ(call, token, host)
    _ray(["start", "--address", head.address, *_own(host)], environ)
    print(f"{host} has joined the cluster at {head.address}")
    return 0


def stop(call: Call) -> int:
    """End Ray on this machine: as a head, the whole cluster; else this node."""
    _need_ray()
    _ray(["stop", "--grace-period", "30"], dict(call.environ))
    print("Ray has ended on this machine")
    return 0


def installed() -> bool:
    return importlib.util.find_spec("ray") is not None


def _need_ray() -> None:
    if not installed():
        raise ConfigError(
            "replicas need Ray, which is not installed: pip install 'edgeserve[cluster]' (400 MB); for small boxes "
            "there is `edgeserve cluster caddy`"
        )


def _host(text: str) -> str:
    """The address of this machine in the cluster: an IP address, since Ray binds and names nodes by addresses."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise ConfigError(f"--host {text[:200]!r}: expected an IP address of this machine, such as 10.0.0.1") from None
    if found.is_unspecified:
        raise ConfigError(f"--host {text}: name one private address, not all of them; other nodes reach this one there")
    return text


def _need_key(key: str, host: str, listen: Peer | None = None) -> None:
    addresses = [host, *([listen.host.strip("[]")] if listen else [])]
    for one in addresses:
        if not key and not _is_loopback(one):
            raise ConfigError(f"{one} can be reached by other machines: set {ENV_PREFIX}API_KEY, the same on all nodes")


def _need_port(host: str, port: int, flag: str) -> None:
    """Raises ConfigError for a port in use: Ray would report it late, in a traceback, and run on."""
    listening.listen(host, port, flag).close()


def _need_head(head: Peer) -> None:
    """Raises EdgeserveError where nobody listens: Ray would try for minutes."""
    try:
        socket.create_connection((head.host.strip("[]"), head.port), HEAD_SECONDS).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise EdgeserveError(f"no head answers at {head.address} ({reason}): `edgeserve cluster start` there") from None


def _need_models(call: Call) -> None:
    """Pull the configured models that are missing: the start of a replica has no time for it. Raises EdgeserveError."""
    config = call.config()
    store = call.store(config)
    if not (names := supply.missing(config, store)):
        return
    ended_by = supply.pull(call, names)
    if ended_by or (left := supply.missing(config, store)):
        reason = "the pull was ended" if ended_by else f"not on this device: {', '.join(left)}"
        raise EdgeserveError(f"{reason}; Ray was not started: `edgeserve pull {' '.join(names)}`, then start again")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token(call: Call, *, make: bool) -> Path:
    """The file with Ray's token. ``make``: a new one where there is none, for the owner alone. Raises ConfigError."""
    if named := call.args.token_file or call.environ.get("RAY_AUTH_TOKEN_PATH"):
        path = Path(named)
        if path.is_file():
            return path.resolve()
        if not make:
            raise ConfigError(f"{path}: no such file; copy the token of the head to this machine")
    else:
        from edgeserve.models.folder import default_root

        path = default_root(call.environ).parent / TOKEN_FILE
    if not path.is_file():
        if not make:
            raise ConfigError(f"--token-file: name the copy of the head's {TOKEN_FILE}")
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
    return path.resolve()


def _private(token: Path) -> Path:
    """The path of a token that others cannot read: a copy has the rights that its copier gave. Raises ConfigError."""
    mode = stat.S_IMODE(token.stat().st_mode)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        text = f"{token}: others may read it (mode {mode:03o}), and whoever has the token runs programs on all boxes"
        raise ConfigError(f"{text}: chmod 600 {token}")
    return token


def _environ(call: Call, token: Path, host: str) -> dict[str, str]:
    """The environment of Ray's processes on this node; the servers below them inherit it."""
    environ = {name: value for name, value in call.environ.items() if name != "RAY_AUTH_TOKEN"}
    environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
    environ[f"{ENV_PREFIX}HOST"] = host  # the address of the server of this node, which the door reaches it at
    if call.args.config:
        environ[f"{ENV_PREFIX}CONFIG"] = str(Path(call.args.config).resolve())
    return environ


def _own(host: str) -> Sequence[str]:
    return ["--node-ip-address", host, "--disable-usage-stats"]


def _ray(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run a command of Ray. Raises EdgeserveError with its last words."""
    run_apart([*RAY, *arguments], environ, f"ray {arguments[0]}", "")


def _deploy(port: int, host: str, listen: Peer, plan: Mapping[str, object], environ: Mapping[str, str]) -> None:
    from edgeserve.api.routes import ENTRIES

    owner = sorted({one.path.partition("{")[0] for one in ENTRIES if one.owner})
    given = {
        "address": f"{bracketed(host)}:{port}",
        "host": listen.host.strip("[]"),
        "port": listen.port,
        "plan": {**plan, "owner": owner, "command": []},
    }
    run_apart(module_command("edgeserve.cluster.ray_deploy"), environ, "the application", json.dumps(given))


def run_apart(command: Sequence[str], environ: Mapping[str, str], name: str, text: str) -> None:
    """Run a command with ``text`` on its stdin. Raises EdgeserveError with its last words, under its ``name``."""
    try:
        done = subprocess.run(  # noqa: S603 - Ray's own command
            command, env=dict(environ), input=text, capture_output=True, text=True, timeout=START_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise EdgeserveError(
            f"{name} was not ready within {START_SECONDS:g} s; /tmp/ray/session_latest/logs says why"
        ) from None
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split())[-600:]
        raise EdgeserveError(f"{name} failed with exit code {done.returncode}: {words}")
