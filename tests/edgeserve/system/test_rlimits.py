"""Limits of resources, set in a child: nothing raises them again."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from edgeserve.system import rlimits

CODE = """
import json, resource
from edgeserve.system import rlimits
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
told = rlimits.lower({"CORE": rlimits.NO_CORE, "NOFILE": 256, "CPU": 100})
print(json.dumps([told, {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in told}]))
"""


def test_limits_are_soft_and_hard_and_never_above_the_present_ones() -> None:
    told, found = json.loads(subprocess.run([sys.executable, "-c", CODE], capture_output=True, check=True).stdout)
    assert told == {"CORE": 1, "NOFILE": 128, "CPU": 100}
    assert found == {name: [value, value] for name, value in told.items()}


def test_a_limit_that_the_system_lacks_is_told() -> None:
    with pytest.raises(OSError, match="RLIMIT_NONE"):
        rlimits.lower({"NONE": 1})
