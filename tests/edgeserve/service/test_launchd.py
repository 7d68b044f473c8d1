"""The property list of launchd, as text."""

from __future__ import annotations

import plistlib
from pathlib import Path

from edgeserve.service.launchd import LABEL, property_list
from edgeserve.service.plan import Plan


def test_the_server_starts_with_the_session_and_after_a_failure() -> None:
    plan = Plan("user", ("/opt/python", "-m", "edgeserve", "serve"), {"EDGESERVE_MODELS_DIR": "/a & b"})
    found = plistlib.loads(property_list(plan, Path("/tmp/edgeserve.log")))
    assert found["Label"] == LABEL
    assert found["ProgramArguments"] == ["/opt/python", "-m", "edgeserve", "serve"]
    assert found["EnvironmentVariables"] == {"EDGESERVE_MODELS_DIR": "/a & b"}
    assert (found["RunAtLoad"], found["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert found["StandardErrorPath"] == found["StandardOutPath"] == "/tmp/edgeserve.log"
    assert "UserName" not in found


def test_a_daemon_runs_as_its_user() -> None:
    found = plistlib.loads(property_list(Plan("system", ("/opt/python",), user="ada"), Path("/x")))
    assert found["UserName"] == "ada"
