"""Fresh interpreters that are like this one: same modules, flags, folder and environment but its secrets."""

from __future__ import annotations

import errno
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from edgeserve.errors import Busy, EdgeserveError, EngineFailure

QUIET = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that are blocked until the new interpreter ignores them: Ctrl-C reaches every process of the server."""
SCARCE = {errno.EAGAIN, errno.ENOMEM}
RETRY_SECONDS = 5.0
SECRETS = ("EDGESERVE_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Variables that no child gets: one that a crafted file has taken over could leak them."""
RARELY = ("concurrent.futures", "copy", "hashlib", "inspect", "ipaddress", "ntpath", "selectors", "traceback")
"""Modules that others import early and hardly use, or late: 1.5 MB, and 16 ms of a start."""
_FLAGS = {
    "isolated": "-I",
    "ignore_environment": "-E",
    "no_user_site": "-s",
    "dont_write_bytecode": "-B",
    "utf8_mode": "-Xutf8",
    "dev_mode": "-Xdev",
}
"""Options by their attribute in ``sys.flags``."""


def begin(module: str, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    """Start an interpreter that calls ``module.main`` with the numbers of ``descriptors``, all that it inherits.

    Its stdin is the null device, stdout and stderr are those of this process. Raises OSError.
    """
    options = [option for flag, option in _FLAGS.items() if getattr(sys.flags, flag)] + ["-O"] * sys.flags.optimize
    numbers = ", ".join(map(str, descriptors))
    # The path comes first: the module must be the one of this process, whatever lies in the working directory. It is
    # all that the module "site" would find, which takes 15 to 30 ms of processor time (-S).
    path = f"import sys; sys.path[:] = {search_path()!a}"
    lean = f"from edgeserve.system.deferred import defer; defer{RARELY!r}"
    # Collections of garbage would look at every module and find next to nothing: until main begins there is none, and
    # then the modules are old (heap.uncollected).
    old = "gc.freeze(); gc.unfreeze(); gc.enable()"
    code = f"import gc; gc.disable(); {path}; {lean}; from {module} import main; {old}; main({numbers})"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, QUIET)
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-S", *options, "-c", code],
            stdin=subprocess.DEVNULL,
            pass_fds=descriptors,
            env={name: value for name, value in os.environ.items() if name not in SECRETS},
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def module_command(module: str) -> list[str]:
    """The command that runs a module of an installed package, whatever lies in the working directory (-P)."""
    return [sys.executable, "-P", "-m", module]


def search_path() -> list[str]:
    """The entries of ``sys.path``, and the folder of our package where an editable install finds it without."""
    path = [str(entry) for entry in sys.path]
    spec = importlib.util.find_spec("edgeserve")
    home = str(Path(spec.origin).parents[1]) if spec and spec.origin else ""
    return [*path, home] if home and home not in path else path


def refusal(name: str, error: OSError) -> EdgeserveError:
    """The error of a system that starts no process: Busy when memory or processes are short, else EngineFailure."""
    text = f"the system starts no process for {name}: {error.strerror} (errno {error.errno})"
    if error.errno in SCARCE:
        advice = "end other programs, or raise the limits of memory and of processes"
        return Busy(f"{text}; {advice}", retry_after=RETRY_SECONDS)
    return EngineFailure(text)
