"""The plan of a service: all that its files say, decided before one is written."""

from __future__ import annotations

import os
import pwd
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal

from edgeserve.config import Config
from edgeserve.dataclass import dataclass
from edgeserve.errors import ConfigError
from edgeserve.memory.budget import budget
from edgeserve.models.folder import default_root, expanded
from edgeserve.system.readings import Readings

Whose = Literal["user", "system"]
SYSTEM_STATE = Path("/var/lib/edgeserve")
"""The folder that systemd makes for the service (``StateDirectory``)."""
STATES = "prefix_cache_dir"
"""Option of a model: its folder of saved conversations."""
HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
GPUS = {"/dev/nvidiactl": "char-nvidia*", "/dev/dri": "char-drm", "/dev/kfd": "char-kfd"}
"""Groups of device nodes that a GPU's driver needs, by a path that is there with the driver."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A service.

    Fields:
        command     program and arguments
        user        account that runs it; empty: systemd makes one for the service alone
        listen      addresses of the socket that systemd opens; empty: the server opens its own
        memory_max  bytes; None: no bound
        writable    folders beside the service's own state that the server writes to
        homes       whether the server needs files below a home folder
        devices     groups of device nodes, of GPUs
        low_port    whether the server opens a port below 1024
        stop_seconds  longest end of the server
        namespaces  whether the manager of the user can hide files and drop capabilities (``Manager.has_namespaces``)
    """

    whose: Whose
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    listen: tuple[str, ...] = ()
    memory_max: int | None = None
    writable: tuple[Path, ...] = ()
    homes: bool = False
    devices: tuple[str, ...] = ()
    low_port: bool = False
    stop_seconds: int = 60
    namespaces: bool = False


def make_plan(
    config: Config,
    readings: Readings,
    *,
    whose: Whose,
    user: str = "",
    socket: bool = False,
    environ: Mapping[str, str],
) -> Plan:
    """The plan for these settings. ``environ``: variables of the person who installs.

    Raises ConfigError for files that the service's account could not read, and for a user that is not there.
    """
    source = Path(config.source).absolute() if config.written.name else None
    root, writable = _models(config, whose, user, environ)
    writable += tuple(_states(config))
    needed = [Path(sys.executable), Path(sys.prefix), *filter(None, (source,))]
    if whose == "system" and not user:
        for path in needed:
            _require_readable(path)
    idle = ["--idle-exit", str(int(config.server.idle_exit) or 600)] if socket else []
    settings = ["--config", str(source)] if source else []
    variables = {"EDGESERVE_MODELS_DIR": str(root)} if root else {}
    return Plan(
        whose,
        (sys.executable, "-m", "edgeserve", "serve", *settings, *idle),
        variables,
        user,
        _addresses(config) if socket else (),
        memory_max(config, readings),
        writable,
        any(_below(path, HOMES) for path in (*needed, *writable)),
        tuple(group for path, group in GPUS.items() if Path(path).exists()),
        config.server.port < 1024 and not socket,
        int(config.server.drain_seconds) + 30,
    )


def memory_max(config: Config, readings: Readings) -> int | None:
    """The bound of the service's memory: one with which the server finds the same budget as without.

    The server reads the limit of its control group, and takes ``max_percent`` of it for the engines.
    """
    if not config.memory.enabled:
        return None
    found = budget(readings, config.memory, settled=False)
    return min(readings.machine_total, int(found.usable / config.memory.max_percent))


def _models(
    config: Config, whose: Whose, user: str, environ: Mapping[str, str]
) -> tuple[Path | None, tuple[Path, ...]]:
    """The folder of models to name, if any, and the folders that the service writes to. Raises ConfigError."""
    if config.server.models_dir:
        root = expanded(config.server.models_dir, config.label("server", "models_dir")).absolute()
    elif whose == "user":
        root = default_root(environ)
    elif user:
        root = default_root({"HOME": _home(user)})
    else:
        return SYSTEM_STATE / "models", ()
    named = None if config.in_file("server", "models_dir") else root
    return named, (root.parent,)


def _states(config: Config) -> Iterator[Path]:
    """Folders of saved conversations that the settings name. Raises ConfigError."""
    named = [(config.server.states_dir, config.label("server", "states_dir"))]
    named += [(str(one.options.get(STATES, "")), f"[{name}] {STATES}") for name, one in config.models.items()]
    return (expanded(path, label).absolute() for path, label in named if path)


def _home(user: str) -> str:
    """Raises ConfigError."""
    try:
        return pwd.getpwnam(user).pw_dir
    except KeyError:
        raise ConfigError(f"--run-as {user[:80]}: there is no such user on this machine") from None


def _addresses(config: Config) -> tuple[str, ...]:
    host, port = config.server.host, config.server.port
    if not port:
        raise ConfigError("[server] port = 0: a socket of systemd needs a port; name one")
    name = {"localhost": "127.0.0.1", "": "0.0.0.0"}.get(host, host)  # noqa: S104 - written, not bound
    return (f"[{name}]:{port}" if ":" in name else f"{name}:{port}",)


def _require_readable(path: Path) -> None:
    """Raises ConfigError for a path that an account of the service's own could not read."""
    real = Path(os.path.realpath(path))
    for one in (*reversed(real.parents), real):
        mode = one.stat().st_mode
        if not mode & stat.S_IXOTH if stat.S_ISDIR(mode) else not mode & stat.S_IROTH:
            raise ConfigError(
                f"the service's own account cannot read {one} (mode {stat.S_IMODE(mode):03o}), which {path} needs: "
                "install edgeserve and its settings where every user may read them, such as /opt/edgeserve and "
                "/etc/edgeserve, or name an account with --run-as"
            )


def _below(path: Path, folders: tuple[Path, ...]) -> bool:
    return any(Path(os.path.realpath(path)).is_relative_to(one) for one in folders)
