"""A program that starts children as a server does, prints the pids of all processes below it, and waits.

python tests/support/fake_server.py MODULE:CLASS              the launcher
python tests/support/fake_server.py MODULE:CLASS subreaper    orphans become its children; its fork server is killed
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from pathlib import Path

SET_CHILD_SUBREAPER = 36
"""Operation of prctl(2)."""


def main(launcher: str, order: str = "") -> None:
    import psutil

    from edgeserve.processes.child import Child
    from edgeserve.system import libc

    if order:
        libc.library().prctl(SET_CHILD_SUBREAPER, 1)
    module, _, name = launcher.partition(":")
    made = getattr(importlib.import_module(module), name)()

    def launch(entry: str) -> Child:
        child: Child = made.launch(f"support.entries:{entry}", {}, entry)
        child.socket.recv(1)
        return child

    children = [launch("wait"), launch("spin")]
    if order:
        os.kill(made.pid, signal.SIGKILL)
        for pid in [made.pid, *(child.pid for child in children)]:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # a zombie now, and a child of this process
        assert [child.wait() for child in children] == [-signal.SIGKILL] * 2
        children = [launch("wait")]
    below = psutil.Process().children(recursive=True)
    print(json.dumps([one.pid for one in below]), flush=True)
    signal.pause()


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent.parent.parent), str(Path(__file__).parent.parent)]
    main(*sys.argv[1:])
