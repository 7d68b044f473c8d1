"""Units of systemd for the server, and the rights that it keeps (systemd.exec(5)).

docs/service.md says why each right is kept or given up.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgeserve.errors import ConfigError
from edgeserve.service.plan import Plan

HEAD = "# Written by `edgeserve service install`. Put changes into `systemctl edit edgeserve`."
"""First line of each unit."""
WATCHDOG_SECONDS = 60
START_SECONDS = 900
"""Longest start: models may have to be mapped, or even read, from a slow card."""
DESCRIPTORS = 8192

CALLS = ("@system-service", "seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")
"""Calls of the kernel that the server and its workers make. The workers confine themselves by the last four."""
REFUSED_CALLS = ("@privileged",)

WITHOUT_RIGHTS = (
    "NoNewPrivileges=yes",
    "LockPersonality=yes",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
    "SystemCallArchitectures=native",
    f"SystemCallFilter={' '.join(CALLS)}",
    f"SystemCallFilter=~{' '.join(REFUSED_CALLS)}",
    "SystemCallErrorNumber=EPERM",
    "UMask=0077",
)
"""Limits that the manager of a user can set, too."""
OF_THE_SYSTEM = (
    "CapabilityBoundingSet={capabilities}",
    "AmbientCapabilities={capabilities}",
    "ProtectSystem=strict",
    "ProtectProc=invisible",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "PrivateTmp=yes",
    "PrivateMounts=yes",
    "RemoveIPC=yes",
)
"""Limits that take rights, or a namespace of users in which the manager of a user has them."""
OF_A_NAMESPACE = (
    "PrivateUsers=yes",
    *(one.format(capabilities="") for one in OF_THE_SYSTEM),
    "ProtectHome=read-only",
)
"""Limits that a user's manager can set where the system lets everybody make namespaces of users."""


def service_unit(plan: Plan) -> str:
    """The text of ``edgeserve.service``. Raises ConfigError for a path that no unit can hold."""
    return "\n".join(
        [
            HEAD,
            "[Unit]",
            "Description=edgeserve, chat, vision, transcription and speech with local models",
            "After=network.target",
            "StartLimitIntervalSec=300",
            "StartLimitBurst=10",
            "",
            "[Service]",
            "Type=notify",
            "NotifyAccess=main",
            f"ExecStart={' '.join(argument(one) for one in plan.command)}",
            "ExecReload=/bin/kill -HUP $MAINPID",
            "KillMode=mixed",
            "Restart=on-failure",
            "RestartSec=2",
            "# 2: the settings are wrong, and would be so again.",
            "RestartPreventExitStatus=2",
            f"TimeoutStartSec={START_SECONDS}",
            f"TimeoutStopSec={plan.stop_seconds}",
            f"WatchdogSec={WATCHDOG_SECONDS}",
            f"LimitNOFILE={DESCRIPTORS}",
            "# The kernel may end a worker that takes too much; the server tells its client, and goes on.",
            "OOMPolicy=continue",
            *([f"MemoryMax={plan.memory_max}"] if plan.memory_max else []),
            *(f"Environment={quoted(f'{name}={value}')}" for name, value in plan.environment.items()),
            *(_of_the_system(plan) if plan.whose == "system" else _of_a_user(plan)),
            *WITHOUT_RIGHTS,
            # Drivers of GPUs compile code while they run.
            *([] if plan.devices else ["MemoryDenyWriteExecute=yes"]),
            "",
            *([] if plan.listen else ["[Install]", f"WantedBy={_target(plan)}", ""]),
        ]
    )


def _of_the_system(plan: Plan) -> Iterator[str]:
    """Lines for the manager of the system."""
    capabilities = "CAP_NET_BIND_SERVICE" if plan.low_port else ""
    yield "EnvironmentFile=-/etc/edgeserve/environment"
    yield "LoadCredential=api_key:edgeserve.api_key"
    if plan.user:
        yield f"User={plan.user}"
    else:
        yield "DynamicUser=yes"
        yield "Environment=HOME=%S/edgeserve"
    yield "StateDirectory=edgeserve"
    yield "StateDirectoryMode=0700"
    yield from (one.format(capabilities=capabilities) for one in OF_THE_SYSTEM)
    if not plan.low_port:  # a capability would have to hold outside of the namespace of users
        yield "PrivateUsers=yes"
    yield f"ProtectHome={'read-only' if plan.homes else 'yes'}"
    yield from _writable(plan)
    if plan.devices:
        yield "DevicePolicy=closed"
        yield from (f"DeviceAllow={one} rw" for one in plan.devices)
    else:
        yield "PrivateDevices=yes"


def _of_a_user(plan: Plan) -> Iterator[str]:
    """Lines for the manager of a user, which cannot choose single devices."""
    yield "EnvironmentFile=-%E/edgeserve/environment"
    if plan.namespaces:
        yield from OF_A_NAMESPACE
        yield from _writable(plan)
        yield from [] if plan.devices else ["PrivateDevices=yes"]


def _writable(plan: Plan) -> Iterator[str]:
    return (f"ReadWritePaths={quoted(f'-{one}')}" for one in plan.writable)


def socket_unit(plan: Plan) -> str:
    """The text of ``edgeserve.socket``."""
    return "\n".join(
        [
            HEAD,
            "[Unit]",
            "Description=The port of edgeserve, which starts with the first connection",
            "",
            "[Socket]",
            *(f"ListenStream={one}" for one in plan.listen),
            "NoDelay=yes",
            "Backlog=1024",
            "",
            "[Install]",
            "WantedBy=sockets.target",
            "",
        ]
    )


def _target(plan: Plan) -> str:
    return "multi-user.target" if plan.whose == "system" else "default.target"


def quoted(word: str) -> str:
    """One word of a unit (systemd.syntax(7)). Raises ConfigError for control characters."""
    if not word.isprintable():
        raise ConfigError(f"{word[:200]!r} holds a control character, which no unit of systemd can have")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return escaped if escaped and not set(escaped) & set(" ;'\"") else f'"{escaped}"'


def argument(word: str) -> str:
    """One word of a command (systemd.service(5), "Command lines"). Raises ConfigError for control characters."""
    return quoted(word.replace("$", "$$"))
