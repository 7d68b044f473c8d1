"""The way of a service into systemd and launchd, on stand-ins of their programs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.cases import each

from edgeserve.errors import ConfigError, EdgeserveError
from edgeserve.service.launchd import LABEL
from edgeserve.service.manager import SERVICE, SOCKET, Manager, folder_of, log_of, run, texts
from edgeserve.service.plan import Plan

COMMAND = ("/usr/bin/python3", "-m", "edgeserve", "serve")
PLAN = Plan("user", COMMAND)
SOCKETED = Plan("user", COMMAND, listen=("127.0.0.1:8080",))


class Programs:
    """Programs of the system. ``answers``: exit code and stdout by the command's last words."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, tuple[int, str]] = {}

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.asked.append(" ".join(command))
        code, out = next((one for words, one in self.answers.items() if words in self.asked[-1]), (0, ""))
        return subprocess.CompletedProcess(command, code, out, "refused\n" if code else "")


@pytest.fixture
def programs() -> Programs:
    return Programs()


def manager(folder: Path, programs: Programs, **more: Any) -> Manager:
    return Manager(more.pop("whose", "user"), folder, programs, **({"platform": "linux", "booted": True} | more))


def install(one: Manager, plan: Plan) -> list[str]:
    files = texts(plan, Path("/log"), one.platform)
    written = list(one.write(files))
    one.start(files)
    return written


def test_in_and_out_again(tmp_path: Path, programs: Programs) -> None:
    one = manager(tmp_path / "units", programs)
    assert install(one, PLAN) == [str(tmp_path / "units" / SERVICE)]
    assert programs.asked == ["systemctl --user daemon-reload", f"systemctl --user enable --now {SERVICE}"]
    assert [path.name for path in (tmp_path / "units").iterdir()] == [SERVICE]
    programs.answers["is-active"] = (0, "active\n")
    assert one.state() == "active"
    assert not one.waits()
    programs.asked.clear()
    assert list(one.remove()) == [str(tmp_path / "units" / SERVICE)]
    assert programs.asked == [f"systemctl --user disable --now {SERVICE}", "systemctl --user daemon-reload"]
    assert one.state() == ""
    programs.asked.clear()
    assert list(one.remove()) == []
    assert programs.asked == []


def test_a_socket_is_started_in_place_of_the_service(tmp_path: Path, programs: Programs) -> None:
    one = manager(tmp_path, programs, whose="system")
    assert len(install(one, SOCKETED)) == 2
    assert programs.asked[-1] == f"systemctl enable --now {SOCKET}"
    programs.answers = {f"is-active {SERVICE}": (3, "inactive\n"), f"is-active {SOCKET}": (0, "active\n")}
    assert one.state() == "inactive"
    assert one.waits()
    programs.asked.clear()
    install(one, PLAN)
    assert f"systemctl disable --now {SOCKET}" in programs.asked
    assert [path.name for path in tmp_path.iterdir()] == [SERVICE]


def test_the_unit_of_somebody_else_stays(tmp_path: Path, programs: Programs) -> None:
    (tmp_path / SERVICE).write_text("[Unit]\n")
    one = manager(tmp_path, programs)
    with pytest.raises(ConfigError, match="was not written by `edgeserve service install`: move it away"):
        install(one, PLAN)
    with pytest.raises(ConfigError, match="was not written by"):
        list(one.remove())
    assert (tmp_path / SERVICE).read_text() == "[Unit]\n"
    assert programs.asked == []


def test_a_refusal_is_told_in_the_words_of_systemd(tmp_path: Path, programs: Programs) -> None:
    programs.answers["enable"] = (1, "")
    with pytest.raises(EdgeserveError, match=r"systemctl --user enable --now edgeserve\.service: refused"):
        install(manager(tmp_path, programs), PLAN)


def test_namespaces_of_users_are_tried_on_a_program_that_ends(tmp_path: Path, programs: Programs) -> None:
    one = manager(tmp_path, programs)
    assert one.has_namespaces()
    (asked,) = programs.asked
    assert asked.startswith("systemd-run --user --quiet --wait --collect --property=PrivateUsers=yes ")
    assert "--property=CapabilityBoundingSet= " in asked
    assert asked.endswith(" true")
    programs.answers["systemd-run"] = (226, "")
    assert not one.has_namespaces()


@each("more", [{"whose": "system"}, {"platform": "darwin"}, {"booted": False}])
def test_namespaces_of_users_are_asked_of_a_users_systemd_alone(
    tmp_path: Path, programs: Programs, more: dict[str, Any]
) -> None:
    assert not manager(tmp_path, programs, **more).has_namespaces()
    assert programs.asked == []


def test_a_machine_without_systemd(tmp_path: Path, programs: Programs) -> None:
    with pytest.raises(EdgeserveError, match="systemd does not run this machine; --print shows the unit"):
        manager(tmp_path, programs, booted=False).require()
    manager(tmp_path, programs).require()
    manager(tmp_path, programs, booted=False, platform="darwin").require()


def test_files_go_where_no_systemd_runs(tmp_path: Path, programs: Programs) -> None:
    """The files of `install --no-start`, in a container."""
    one = manager(tmp_path, programs, booted=False)
    list(one.write(texts(PLAN, Path("/log"), "linux")))
    assert list(one.remove()) == [str(tmp_path / SERVICE)]
    assert programs.asked == []


def test_launchd(tmp_path: Path, programs: Programs) -> None:
    one = manager(tmp_path, programs, platform="darwin", whose="system")
    assert install(one, PLAN) == [str(tmp_path / f"{LABEL}.plist")]
    assert programs.asked == [f"launchctl bootstrap system {tmp_path / f'{LABEL}.plist'}"]
    assert one.state() == "active"
    list(one.remove())
    assert programs.asked[-1] == f"launchctl bootout system/{LABEL}"
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConfigError, match="--socket needs systemd"):
        texts(SOCKETED, Path("/log"), "darwin")


def test_places() -> None:
    home = {"HOME": "/home/ada"}
    assert folder_of("user", home, "linux") == Path("/home/ada/.config/systemd/user")
    assert folder_of("user", {**home, "XDG_CONFIG_HOME": "/cfg"}, "linux") == Path("/cfg/systemd/user")
    assert folder_of("system", home, "linux") == Path("/etc/systemd/system")
    assert folder_of("user", home, "darwin") == Path("/home/ada/Library/LaunchAgents")
    assert folder_of("system", home, "darwin") == Path("/Library/LaunchDaemons")
    assert log_of("user", home) == Path("/home/ada/Library/Logs/edgeserve.log")
    assert log_of("system", home) == Path("/var/log/edgeserve.log")


def test_a_program_that_is_not_there() -> None:
    assert run(["true"]).returncode == 0
    with pytest.raises(EdgeserveError, match="the program no-such-program is not installed"):
        run(["no-such-program"])
