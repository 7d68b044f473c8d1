"""The property list of launchd, macOS's service manager (launchd.plist(5))."""

from __future__ import annotations

import plistlib
from pathlib import Path

from edgeserve.service.plan import Plan

LABEL = "org.edgeserve.server"


def property_list(plan: Plan, log: Path) -> bytes:
    """The text of the property list. ``log``: the file that gets the server's log lines.

    The server starts with the session, or with the machine, and again after a failure.
    """
    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(plan.command),
            "EnvironmentVariables": dict(plan.environment),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "ExitTimeOut": plan.stop_seconds,
            "ProcessType": "Interactive",  # the system slows other kinds down
            "Umask": 0o077,
            "StandardErrorPath": str(log),
            "StandardOutPath": str(log),
            **({"UserName": plan.user} if plan.user else {}),
        }
    )
