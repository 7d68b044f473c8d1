"""The filter of system calls of a worker: refused calls fail with an error, and end nothing (seccomp(2)).

Refused are new processes and programs, the network, other processes, the kernel's administration and the names,
owners and modes of files. Calls that libraries try before an older one fail with ENOSYS, all others with EPERM.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from edgeserve.system import bpf, libc, syscalls
from edgeserve.system.bpf import Rule, Test, is_in, is_not_in, is_null

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_MM = 1, 22, 35
MODE_FILTER = 2

PROCESSES = ("execve", "execveat", "fork", "vfork")
NETWORK = ("accept", "accept4", "bind", "connect", "listen", "socket", "socketpair")
OTHERS = ("kcmp", "migrate_pages", "move_pages", "pidfd_getfd", "pidfd_open", "pidfd_send_signal", "process_madvise",
          "process_mrelease", "process_vm_readv", "process_vm_writev", "ptrace", "tkill")  # fmt: skip
"""Calls that reach into other processes. tkill names no process, so that its target cannot be checked."""
SHARED = ("mq_open", "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop",
          "shmat", "shmctl", "shmget")  # fmt: skip
"""Queues, semaphores and memory that processes of one user find by names and numbers."""
PATHS = ("chmod", "chown", "chroot", "fanotify_init", "fchmodat", "fchown", "fchownat", "fremovexattr", "fsetxattr",
         "futimesat", "inotify_add_watch", "lchown", "lremovexattr", "lsetxattr", "name_to_handle_at",
         "open_by_handle_at", "removexattr", "setxattr", "truncate", "utime", "utimes")  # fmt: skip
"""Calls on files that Landlock does not handle, or handles by no ABI before the third."""
IDENTITY = ("capset", "personality", "setfsgid", "setfsuid", "setgid", "setgroups", "setregid", "setresgid",
            "setresuid", "setreuid", "setrlimit", "setuid")  # fmt: skip
KERNEL = ("acct", "add_key", "adjtimex", "bpf", "clock_adjtime", "clock_settime", "delete_module", "finit_module",
          "fsconfig", "fsmount", "fsopen", "fspick", "init_module", "ioperm", "iopl", "kexec_file_load", "kexec_load",
          "keyctl", "lookup_dcookie", "modify_ldt", "mount", "mount_setattr", "move_mount", "open_tree",
          "perf_event_open", "pivot_root", "quotactl", "quotactl_fd", "reboot", "request_key", "setdomainname",
          "sethostname", "setns", "settimeofday", "swapoff", "swapon", "syslog", "umount2", "unshare", "userfaultfd",
          "uselib", "vhangup")  # fmt: skip

ABSENT = ("clone3", "io_uring_enter", "io_uring_register", "io_uring_setup", "openat2")
"""Calls whose arguments lie in memory, where a filter cannot read them, and io_uring, whose work no filter sees.
Libraries fall back to clone and openat."""

CLONE_THREAD, CLONE_NEW = 0x10000, 0x7E020000
"""A thread of this process; and every kind of new namespace."""
TERMINAL = (0x5412, 0x541C, 0x541D, 0x5423)
"""TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD: type on the terminal of the server's owner, and change its driver."""
OWNERS = (0x8901, 0x8902)
"""FIOSETOWN, SIOCSPGRP: signals about a file go to another process."""
ATTRIBUTES = (0x40086602, 0x401C5820)
"""FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR: make a file that is open for reading immutable."""
F_SETOWN, F_SETOWN_EX = 8, 15
AF_UNIX, AF_INET, DATAGRAM_BIT = 1, 2, 2
"""Datagram and raw sockets have this bit in their type; streams and sequenced packets do not."""


NOBODY: Mapping[str, Sequence[Test]] = MappingProxyType({})
DRIVER: Mapping[str, Sequence[Test]] = {
    "accept": (),
    "accept4": (),
    "bind": (),
    "kcmp": (),
    "listen": (),
    "socket": (is_in(0, AF_UNIX), is_not_in(1, DATAGRAM_BIT, mask=DATAGRAM_BIT)),
    "socketpair": (is_in(0, AF_UNIX), is_not_in(1, DATAGRAM_BIT, mask=DATAGRAM_BIT)),
}
"""Calls that drivers of GPUs need, with tests. CUDA listens on a socket of its own; connecting stays refused. A
datagram could be sent to any service's socket without a connection."""


STREAM: Sequence[Test] = (is_in(0, AF_INET), is_not_in(1, DATAGRAM_BIT, mask=DATAGRAM_BIT))
CLIENT: Mapping[str, Sequence[Test]] = {"socket": STREAM, "connect": ()}
"""Calls of a process that connects to other machines by TCP. No filter can read the address; Landlock bounds the port.
"""
LISTENER: Mapping[str, Sequence[Test]] = {"socket": STREAM, "bind": (), "listen": (), "accept": (), "accept4": ()}
"""Calls of a process that other machines connect to."""


def judged(pid: int, allowed: Mapping[str, Sequence[Test]] = NOBODY) -> dict[str, Rule]:
    """The rules for process ``pid`` by the call's name, without numbers.

    ``allowed``: calls to allow where their tests hold, such as ``DRIVER``.
    """
    own, own_thread = (is_in(0, pid),), (is_in(0, 0, pid),)
    tests: dict[str, Sequence[Test]] = {
        # A signal to oneself only: abort() sends one. Process 0 would be the whole group, with the server in it.
        **dict.fromkeys(("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"), own),
        **dict.fromkeys(("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"), own_thread),
        "setpriority": (is_in(0, 0), is_in(1, 0, pid)),
        "ioprio_set": (is_in(0, 1), is_in(1, 0, pid)),
        "clone": (is_in(0, CLONE_THREAD, mask=CLONE_THREAD), is_in(0, 0, mask=CLONE_NEW)),
        "prctl": (is_not_in(0, PR_SET_PDEATHSIG, PR_SET_MM),),
        "ioctl": (is_not_in(1, *TERMINAL, *OWNERS, *ATTRIBUTES),),
        "fcntl": (is_not_in(1, F_SETOWN, F_SETOWN_EX),),
        # Landlock before its third ABI lets a file that is opened for reading be truncated.
        "open": (is_not_in(1, os.O_TRUNC, mask=os.O_TRUNC | os.O_ACCMODE),),
        "openat": (is_not_in(2, os.O_TRUNC, mask=os.O_TRUNC | os.O_ACCMODE),),
        "utimensat": (is_null(1),),  # by descriptor: a path may be any
        "prlimit64": (is_in(0, 0, pid), is_null(2)),  # read one's own limits
    }
    refused = (*PROCESSES, *NETWORK, *OTHERS, *SHARED, *PATHS, *IDENTITY, *KERNEL)
    found = {name: Rule(0, errno.EPERM) for name in refused}
    found |= {name: Rule(0, errno.ENOSYS) for name in ABSENT}
    found |= {name: Rule(0, errno.EPERM, holding) for name, holding in tests.items()}
    found |= {name: Rule(0, errno.EPERM, holding) for name, holding in allowed.items() if holding}
    return {name: rule for name, rule in found.items() if allowed.get(name) != ()}


def program(machine: str, pid: int, allowed: Mapping[str, Sequence[Test]] = NOBODY) -> bytes:
    """The filter for a machine of ``syscalls.ARCHITECTURES``. Calls newer than the filter fail with ENOSYS.

    On x86-64 the calls of x32 and i386 fail: their numbers are too high, or their architecture is another.
    """
    column = list(syscalls.ARCHITECTURES).index(machine)
    numbered = [
        Rule(number, rule.error, rule.tests)
        for name, rule in judged(pid, allowed).items()
        if (number := syscalls.NUMBERS[name][column]) is not None
    ]
    known = syscalls.ARCHITECTURES[machine], syscalls.NEWEST
    return bpf.assemble(*known, unknown=errno.ENOSYS, foreign=errno.EPERM, rules=numbered)


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def machine() -> str:
    """The architecture of this process. Raises OSError (ENOTSUP) when there is no table for it."""
    name = os.uname().machine
    if name not in syscalls.ARCHITECTURES or sys.maxsize < 1 << 32:
        bits = "64" if sys.maxsize >= 1 << 32 else "32"
        known = ", ".join(syscalls.ARCHITECTURES)
        raise OSError(errno.ENOTSUP, f"there is no filter for {name} with {bits} bits; there is one for {known}")
    return name


def check() -> None:
    """Raises OSError when no filter can be installed here. Installs nothing."""
    machine()
    try:
        libc.process_control(PR_SET_SECCOMP, MODE_FILTER, None)
    except OSError as error:
        if error.errno != errno.EFAULT:  # the kernel looked for the filter at address 0
            raise


def install(allowed: Mapping[str, Sequence[Test]] = NOBODY) -> int:
    """Filter the calls of this thread and of all that it starts later. Returns the number of instructions.

    Needs no_new_privs. Raises OSError.
    """
    made = program(machine(), os.getpid(), allowed)
    length = len(made) // 8
    filled = _Program(length, made)
    libc.process_control(PR_SET_SECCOMP, MODE_FILTER, ctypes.addressof(filled))
    return length


def reason(error: OSError) -> str:
    """The words for an error of ``check`` or ``install``."""
    words = {
        errno.EINVAL: "this kernel has no filters of system calls (CONFIG_SECCOMP_FILTER)",
        errno.EPERM: "filters of system calls are forbidden here",
        errno.EACCES: "a filter needs no_new_privs, which this process could not get",
        errno.ENOTSUP: error.strerror,
    }
    return words.get(error.errno or 0) or str(error)
