"""Calls of the kernel: results, errors, and arguments in full width."""

from __future__ import annotations

import errno
import os
import platform
import sys

import pytest

from edgeserve.system import libc, syscalls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) and calls by number are Linux's own")

NO_SUCH_OPTION = 1 << 30


def test_a_refused_option_is_an_error() -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)) as caught:
        libc.process_control(NO_SUCH_OPTION)
    assert caught.value.errno == errno.EINVAL


@pytest.mark.skipif(platform.machine() not in syscalls.ARCHITECTURES, reason="no table of calls for this machine")
def test_a_call_by_number_has_its_result_and_its_error() -> None:
    column = list(syscalls.ARCHITECTURES).index(platform.machine())
    truncate = syscalls.NUMBERS["truncate"][column]
    assert truncate is not None
    with pytest.raises(OSError, match="No such file") as caught:
        libc.system_call(truncate, b"/no/such/file", 0)
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):  # and not 0, the lower half of the length
        libc.system_call(truncate, os.fsencode(__file__), -1 << 32)
