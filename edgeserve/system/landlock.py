"""Landlock: a Linux process gives up all files, ports and signals but those that it names (landlock(7)).

Each version (ABI) of the kernel's interface handles more. What the running kernel cannot handle stays allowed.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

from edgeserve.system import libc

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of the system calls, the same on all architectures but Alpha."""
ASK_VERSION, PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = (1 << bit for bit in range(13, 16))
BY_ABI = ((1, MAKE_SYM * 2 - 1), (2, REFER), (3, TRUNCATE), (5, IOCTL_DEV))
"""Rights on files by the first ABI that handles them."""

READ = READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | TRUNCATE | REMOVE_FILE | REMOVE_DIR | MAKE_REG | MAKE_DIR | REFER
"""No links, sockets and pipes: another process could be led astray by them."""
DEVICE = READ | WRITE_FILE | IOCTL_DEV
TIDY = READ_DIR | REMOVE_FILE
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""Rights that a rule on anything but a folder may name."""

NETWORK_ABI, BIND_AND_CONNECT = 4, 3
NET_PORT, BIND_TCP, CONNECT_TCP = 2, 1, 2
SCOPE_ABI, SOCKETS_AND_SIGNALS = 6, 3

PROC = Path("/proc")
_pinned: list[int] = []
"""Open descriptors of paths in /proc. The kernel drops names there when it needs memory, and a name that comes back
is another inode, to which no rule applies. An open descriptor keeps the name."""


def version() -> int:
    """The ABI of this kernel. Raises OSError: ENOSYS or EOPNOTSUPP without Landlock, EPERM where it is forbidden."""
    return libc.system_call(CREATE_RULESET, None, 0, ASK_VERSION)


def reason(error: OSError) -> str:
    """The words for an error of ``version`` or ``restrict``."""
    words = {
        errno.ENOSYS: "this kernel has no Landlock; Linux 5.13 and newer can have it (CONFIG_SECURITY_LANDLOCK)",
        errno.EOPNOTSUPP: "Landlock is not active; start the kernel with landlock in its list lsm=",
        errno.EPERM: "Landlock is forbidden here, as old profiles of containers do; allow the calls landlock_*",
    }
    return words.get(error.errno or 0, str(error))


def file_rights(abi: int) -> int:
    """All rights on files that an ABI handles."""
    return sum(rights for first, rights in BY_ABI if abi >= first)


def restrict(
    read: Iterable[Path],
    write: Iterable[Path],
    devices: Iterable[Path],
    tidy: Iterable[Path] = (),
    *,
    listen: Iterable[int] = (),
    connect: Iterable[int] = (),
) -> int:
    """Give up everything else, for this thread and all that it starts later. Returns the ABI. Raises OSError.

    A path is a file, or a folder with all that is below. Paths that do not exist are left out. Files below ``tidy``
    can be listed and removed, not read.

    From ABI 4 on no TCP port can be bound but those of ``listen``, and none connected but those of ``connect``. From
    ABI 6 on neither signals nor connections to abstract sockets leave the processes that are restricted together.
    """
    abi = version()
    handled = file_rights(abi)
    network, scoped = BIND_AND_CONNECT * (abi >= NETWORK_ABI), SOCKETS_AND_SIGNALS * (abi >= SCOPE_ABI)
    # An older kernel refuses a structure that is longer than its own.
    attributes = struct.pack("=QQQ", handled, network, scoped)[
        : 8 if abi < NETWORK_ABI else 16 if abi < SCOPE_ABI else 24
    ]
    ruleset = libc.system_call(CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for paths, rights in ((read, READ), (write, WRITE), (devices, DEVICE), (tidy, TIDY)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        if network:
            for port, right in (*((one, BIND_TCP) for one in listen), *((one, CONNECT_TCP) for one in connect)):
                libc.system_call(ADD_RULE, ruleset, NET_PORT, struct.pack("=QQ", right, port), 0)
        libc.system_call(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return abi


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # it does not exist, or cannot be reached
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= ON_FILES
        libc.system_call(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        if path.parts[: len(PROC.parts)] == PROC.parts:
            _pinned.append(descriptor)
        else:
            os.close(descriptor)
