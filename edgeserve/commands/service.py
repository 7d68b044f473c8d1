"""``edgeserve service install``, ``uninstall`` and ``status``."""

from __future__ import annotations

import getpass
import os
import sys
from dataclasses import replace

from edgeserve.commands import Call
from edgeserve.errors import ConfigError
from edgeserve.service.manager import Manager, folder_of, log_of, texts
from edgeserve.service.plan import Whose, make_plan
from edgeserve.system.probe import Probe


def install(call: Call) -> int:
    """Write the service's files and start it."""
    args, whose = call.args, _whose(call)
    if args.run_as and whose == "user":
        raise ConfigError("--run-as is for a service of the machine: add --system")
    manager = Manager(whose, folder_of(whose, call.environ))
    config, readings = call.config(), Probe().read()
    plan = make_plan(
        config, readings, whose=whose, user=args.run_as or "", socket=args.socket, environ=call.environ
    )  # fmt: skip
    plan = replace(plan, namespaces=manager.has_namespaces())
    files = texts(plan, log_of(whose, call.environ))
    if args.shown:
        for name, text in files.items():
            print(f"# {manager.folder / name}\n{text.decode()}")
        return 0
    if not args.no_start:
        manager.require()
    if whose == "user":  # a service whose home is read-only cannot make them
        for folder in plan.writable:
            folder.mkdir(parents=True, exist_ok=True)
    for path in manager.write(files):
        print(f"wrote {path}")
    if args.no_start:
        return 0
    manager.start(files)
    print("the first connection starts the server" if args.socket else "the server runs, and starts at each boot")
    if whose == "user" and sys.platform == "linux":
        print(f"it runs while you are logged in; `loginctl enable-linger {getpass.getuser()}` keeps it always")
    return 0


def uninstall(call: Call) -> int:
    """Stop the service and remove its files. Models and settings stay."""
    whose = _whose(call)
    removed = list(Manager(whose, folder_of(whose, call.environ)).remove())
    print("\n".join(f"removed {path}" for path in removed) or "the service is not installed")
    return 0


def status(call: Call) -> int:
    """Print the state of the service. Returns 0 where it runs, or waits for a connection, else 1."""
    whose = _whose(call)
    manager = Manager(whose, folder_of(whose, call.environ))
    state = manager.state()
    if not state:
        print(f"the service is not installed: there is none in {manager.folder}")
        return 1
    waits = manager.waits()
    words = ", and waits for the first connection" if waits and state != "active" else ""
    print("\n".join([f"edgeserve.service is {state}{words}", *(f"  {path}" for path in manager.installed())]))
    return 0 if state == "active" or waits else 1


def _whose(call: Call) -> Whose:
    chosen: Whose | None = call.args.whose
    return chosen or ("system" if os.geteuid() == 0 else "user")
