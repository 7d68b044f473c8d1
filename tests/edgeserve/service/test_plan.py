"""The plan of a service, from settings and the machine."""

from __future__ import annotations

import dataclasses
import getpass
import os
import pwd
import sys
from pathlib import Path
from typing import Any

import pytest
from support.memory import readings

from edgeserve.config import load
from edgeserve.errors import ConfigError
from edgeserve.memory.budget import budget
from edgeserve.service import plan as plans
from edgeserve.service.plan import Plan, make_plan, memory_max
from edgeserve.system.readings import GroupLimit
from edgeserve.units import GB

BOX = readings(total=4 * GB)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def planned(home: dict[str, str], text: str = "", whose: Any = "user", **more: Any) -> Plan:
    path = Path(home["HOME"]) / "models.toml"
    path.write_text(text)
    return make_plan(load({}, path=path), BOX, whose=whose, environ=home, **more)


def test_a_service_of_a_user_serves_what_its_user_serves(home: dict[str, str]) -> None:
    found = planned(home)
    settings = str(Path(home["HOME"]) / "models.toml")
    assert found.command == (sys.executable, "-m", "edgeserve", "serve", "--config", settings)
    assert found.environment == {"EDGESERVE_MODELS_DIR": f"{home['HOME']}/.local/share/edgeserve/models"}
    assert (found.user, found.listen) == ("", ())


def test_the_folder_of_the_settings_is_named_nowhere_else(home: dict[str, str]) -> None:
    found = planned(home, '[server]\nmodels_dir = "/srv/models"\n')
    assert found.environment == {}
    assert found.writable == (Path("/srv"),)


def test_folders_of_saved_conversations_can_be_written(home: dict[str, str]) -> None:
    found = planned(home, '[server]\nstates_dir = "~/kept"\n[llm]\nmodel = "x"\nprefix_cache_dir = "/srv/states"\n')
    beside, *states = found.writable
    assert beside == Path(home["HOME"]) / ".local/share/edgeserve"
    assert states == [Path("~/kept").expanduser(), Path("/srv/states")]


def test_the_memory_of_the_service_leaves_the_budget_as_it_is(home: dict[str, str]) -> None:
    config = load({})
    free = budget(BOX, config.memory, settled=False).usable
    most = memory_max(config, BOX)
    assert most is not None
    assert free < most <= BOX.total
    inside = dataclasses.replace(BOX, group=GroupLimit(limit=most, headroom=most))
    assert budget(inside, config.memory, settled=False).usable == pytest.approx(free, abs=1)
    assert memory_max(load({"EDGESERVE_ENABLE_MEMORY_GOVERNOR": "false"}), BOX) is None


def test_a_socket_has_the_address_of_the_settings(home: dict[str, str]) -> None:
    found = planned(home, '[server]\nhost = "::"\nport = 9000\n', socket=True)
    assert found.listen == ("[::]:9000",)
    assert found.command[-2:] == ("--idle-exit", "600")
    assert planned(home, "[server]\nidle_exit = 30\n", socket=True).command[-1] == "30"
    assert planned(home, socket=True).listen == ("127.0.0.1:8080",)
    with pytest.raises(ConfigError, match="a socket of systemd needs a port"):
        planned(home, "[server]\nport = 0\n", socket=True)


def test_a_service_of_the_machine_keeps_its_models_in_its_own_folder(
    home: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "_require_readable", lambda path: None)
    found = planned(home, whose="system")
    assert found.environment == {"EDGESERVE_MODELS_DIR": "/var/lib/edgeserve/models"}
    assert found.writable == ()
    me = planned(home, whose="system", user=getpass.getuser())
    kept = f"{pwd.getpwuid(os.getuid()).pw_dir}/.local/share/edgeserve/models"
    assert me.environment == {"EDGESERVE_MODELS_DIR": kept}
    assert me.writable == (Path(kept).parent,)
    assert planned(home, "[server]\nport = 443\n", whose="system").low_port
    with pytest.raises(ConfigError, match="--run-as nobody-here: there is no such user"):
        planned(home, whose="system", user="nobody-here")


def test_files_that_the_service_could_not_read(home: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(home["HOME"])
    folder.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    (folder / "python").touch(0o755)
    with pytest.raises(ConfigError, match=r"account cannot read .*\(mode \d+\), which .*python needs.*--run-as"):
        planned(home, whose="system")


def test_a_gpu_stays_in_sight(home: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "GPUS", {home["HOME"]: "char-drm", f"{home['HOME']}/gone": "char-kfd"})
    assert planned(home).devices == ("char-drm",)
