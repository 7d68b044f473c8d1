"""``edgeserve cluster``: the state of several nodes, a Caddyfile, and what Ray's commands refuse."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from benchmarks.process import free_port
from support.commands import run, told
from support.nodes import model, node
from support.server import fake_pool, serving
from support.store import pulled

from edgeserve.cluster.snapshot import Snapshot
from edgeserve.commands import Call, cluster_ray, supply
from edgeserve.commands.cluster import as_text
from edgeserve.engine import Rung
from edgeserve.errors import EdgeserveError


@pytest.mark.usefixtures("patient")
def test_status_shows_the_nodes_and_those_that_are_silent(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = f"127.0.0.1:{free_port()}"
    with serving(fake_pool(["llm"])) as running:
        address = running.url.rstrip("/")
        assert run("cluster", "status", address) == 0
        heads, row, last = capsys.readouterr().out.splitlines()
        assert heads.split() == ["NODE", "PRESSURE", "BUDGET", "USED", "REQUESTS", "HOT", "WARM"]
        assert row.split()[:1] == [address.removeprefix("http://")]
        assert last.startswith("pressure of all nodes: ")
        assert run("cluster", "status", address, gone, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert [one["models"][0]["name"] for one in told["nodes"]] == ["fake-llm"]
    assert list(told["silent"]) == [gone]


@pytest.mark.usefixtures("patient")
def test_status_asks_one_server_for_its_peers(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = f"127.0.0.1:{free_port()}"
    with serving(fake_pool(["asr"])) as other:
        there = other.url.removeprefix("http://").rstrip("/")
        with serving(fake_pool(["llm"]), peers=(there, gone)) as running:
            assert run("cluster", "status", "--url", running.url) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[0] == there
    assert lines[2].startswith(f"{gone}: ")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["status"], "name the nodes"),
        (["status", "box", "--url", "box"], "name the nodes"),
        (["status", "box one"], "no address of a node"),
        (["caddy", "box:0"], "no address of a node"),
        (["caddy", "box1", "box1"], "named twice"),
        (["start", "--host", "box"], "expected an IP address"),
        (["start", "--host", "0.0.0.0"], "name one private address"),
        (["start", "--host", "10.0.0.1"], "set EDGESERVE_API_KEY"),
        (["start", "--listen", "0.0.0.0:80"], "set EDGESERVE_API_KEY"),
        (["start", "--min", "3", "--max", "2"], "--min 3 --max 2"),
        (["join", "10.0.0.1:6379", "--host", "10.0.0.2"], "set EDGESERVE_API_KEY"),
        (["join", "127.0.0.1:6379"], "name the copy"),
        (["join", "127.0.0.1:6379", "--token-file", "none"], "none: no such file"),
    ],
)
def test_mistakes_are_one_line(
    settings: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster_ray, "installed", lambda: True)
    assert run("cluster", *argv, environ={"EDGESERVE_MODELS_DIR": str(settings), "HOME": str(settings)}) == 2
    (line,) = told(capsys)
    assert line.startswith("[ERROR] ")
    assert words in line


@pytest.mark.parametrize("argv", [["start"], ["join", "127.0.0.1:6379"], ["stop"]])
def test_without_ray_the_extra_is_named(
    settings: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster_ray, "installed", lambda: False)
    assert run("cluster", *argv) == 2
    (line,) = told(capsys)
    assert "pip install 'edgeserve[cluster]'" in line


def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses in these tests are those of no machine."""
    monkeypatch.setattr(cluster_ray, "_need_port", lambda *given: None)
    monkeypatch.setattr(cluster_ray, "_need_head", lambda *given: None)


def ray_without_running(settings: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], dict[str, str]]:
    """The calls that Ray would get, and variables with a key and an empty box.toml beside them."""
    calls: list[Any] = []
    monkeypatch.setattr(cluster_ray, "installed", lambda: True)
    no_sockets(monkeypatch)
    monkeypatch.setattr(cluster_ray, "run_apart", lambda *given: calls.append(given))
    (settings / "box.toml").write_text("")
    return calls, {"EDGESERVE_API_KEY": "secret", "XDG_DATA_HOME": str(settings), "HOME": str(settings)}


def test_start_and_join_call_ray_with_a_token_and_the_named_address(
    settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls, environ = ray_without_running(settings, monkeypatch)
    assert run("cluster", "start", "--host", "10.0.0.1", "--max", "3", "--config", "box.toml", environ=environ) == 0
    (ray, given, _, _), (deploy, same, _, plan) = calls
    assert ray[1:4] == [*deploy[1:3], "ray.scripts.scripts"] == ["-P", "-m", "ray.scripts.scripts"]
    assert ray[4:] == [
        *("start", "--head", "--port", "6379", "--resources", '{"edgeserve_head": 1}'),
        *("--include-dashboard", "false", "--node-ip-address", "10.0.0.1", "--disable-usage-stats"),
    ]
    assert deploy[-1] == "edgeserve.cluster.ray_deploy"
    assert same == given
    assert (given["RAY_AUTH_MODE"], given["EDGESERVE_HOST"]) == ("token", "10.0.0.1")
    assert given["EDGESERVE_CONFIG"] == str(settings / "box.toml")
    token = Path(given["RAY_AUTH_TOKEN_PATH"])
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert len(token.read_text()) == 64
    assert json.loads(plan)["plan"] | {"owner": []} == {
        "least": 1,
        "most": 3,
        "key": "secret",
        "owner": [],
        "command": [],
    }
    assert "/admin/load" in json.loads(plan)["plan"]["owner"]
    assert not [word for call in calls for word in call[0] if "secret" in word or token.read_text() in word]
    said = capsys.readouterr().out
    assert "http://10.0.0.1:8000" in said
    assert "secret" not in said

    joined = ["cluster", "join", "10.0.0.1:6379", "--host", "10.0.0.2", "--token-file", str(token)]
    assert run(*joined, environ=environ) == 0
    assert calls[2][0][4:] == [
        *("start", "--address", "10.0.0.1:6379", "--node-ip-address", "10.0.0.2"),
        "--disable-usage-stats",  # and no --include-dashboard, which Ray takes from a head alone
    ]
    assert run("cluster", "start", "--host", "10.0.0.1", environ=environ) == 0
    assert Path(calls[3][1]["RAY_AUTH_TOKEN_PATH"]) == token  # made once


def test_an_ipv6_address_has_brackets_before_a_port(
    settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls, environ = ray_without_running(settings, monkeypatch)
    assert run("cluster", "start", "--host", "fd00::1", "--config", "box.toml", environ=environ) == 0
    (ray, given, _, _), (_, _, _, plan) = calls
    assert ray[ray.index("--node-ip-address") + 1] == given["EDGESERVE_HOST"] == "fd00::1"
    told_to_ray = json.loads(plan)
    assert (told_to_ray["address"], told_to_ray["host"], told_to_ray["port"]) == ("[fd00::1]:6379", "fd00::1", 8000)
    said = capsys.readouterr().out
    assert "http://[fd00::1]:8000" in said
    assert "join [fd00::1]:6379" in said


@pytest.mark.parametrize("argv", [["start"], ["join", "127.0.0.1:6379", "--token-file", "token"]])
@pytest.mark.parametrize("comes", [True, False])
def test_missing_models_are_pulled_before_ray_starts(
    settings: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], comes: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replica that pulls in its start is given up after 180 s."""
    done = list[str]()

    def pull(call: Call, names: list[str]) -> int:
        done.append(f"pull {' '.join(names)}")
        if comes:
            pulled(settings / "store", "smollm2-135m-instruct")
        return 0

    monkeypatch.setattr(cluster_ray, "installed", lambda: True)
    monkeypatch.setattr(cluster_ray, "run_apart", lambda command, environ, name, text: done.append(name))
    monkeypatch.setattr(supply, "pull", pull)
    no_sockets(monkeypatch)
    (settings / "models.toml").write_text('[llm]\nmodel = "smollm2-135m-instruct"\n')
    (settings / "token").write_text("0" * 64)
    (settings / "token").chmod(0o600)
    environ = {"EDGESERVE_MODELS_DIR": str(settings / "store"), "XDG_DATA_HOME": str(settings), "HOME": str(settings)}
    assert run("cluster", *argv, environ=environ) == (0 if comes else 1)
    assert done[0] == "pull smollm2-135m-instruct"
    if comes:
        assert done[1] == "ray start"
    else:
        assert done[1:] == []
        assert "not on this device: smollm2-135m-instruct; Ray was not started" in told(capsys)[0]


@pytest.mark.parametrize("flag", ["--port", "--listen"])
def test_a_port_in_use_shows_before_ray_starts(
    settings: Path, monkeypatch: pytest.MonkeyPatch, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = list[object]()
    monkeypatch.setattr(cluster_ray, "installed", lambda: True)
    monkeypatch.setattr(cluster_ray, "run_apart", lambda *given: calls.append(given))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = {"--port": free_port(), "--listen": free_port(), flag: port}
        argv = ["--port", str(ports["--port"]), "--listen", f"127.0.0.1:{ports['--listen']}"]
        assert run("cluster", "start", *argv, environ={"XDG_DATA_HOME": str(settings)}) == 2
    (line,) = told(capsys)
    assert line.startswith(f"[ERROR] cannot listen on 127.0.0.1 port {port}: ")
    assert f"choose another with {flag}" in line
    assert calls == []


def test_a_head_that_is_not_there_is_told_at_once(
    settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = list[object]()
    monkeypatch.setattr(cluster_ray, "installed", lambda: True)
    monkeypatch.setattr(cluster_ray, "run_apart", lambda *given: calls.append(given))
    token = settings / "token"
    token.write_text("0" * 64)
    token.chmod(0o600)
    head = f"127.0.0.1:{free_port()}"
    assert run("cluster", "join", head, "--token-file", str(token)) == 1
    (line,) = told(capsys)
    assert line.startswith(f"[ERROR] no head answers at {head} (")
    assert calls == []


def test_a_cluster_that_ray_cannot_run_says_how_to_end_ray(
    settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, environ = ray_without_running(settings, monkeypatch)

    def fails(command: object, environ: object, name: str, text: str) -> None:
        if name == "the application":
            raise EdgeserveError("the application failed with exit code 1: no replica")

    monkeypatch.setattr(cluster_ray, "run_apart", fails)
    assert run("cluster", "start", "--host", "10.0.0.1", "--config", "box.toml", environ=environ) == 1
    (line,) = told(capsys)
    assert line == (
        "[ERROR] the application failed with exit code 1: no replica; Ray runs on: end it with `edgeserve cluster stop`"
    )


def test_a_token_that_others_can_read_is_refused(
    settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster_ray, "installed", lambda: True)
    token = settings / "token"
    token.write_text("0" * 64)
    token.chmod(0o640)
    assert run("cluster", "join", "127.0.0.1:6379", "--token-file", str(token)) == 2
    (line,) = told(capsys)
    assert "others may read it (mode 640)" in line
    assert line.endswith(f"chmod 600 {token}")


def test_a_failing_ray_is_shown_with_its_last_words(
    settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster_ray, "installed", lambda: True)
    monkeypatch.setattr(cluster_ray, "RAY", ["sh", "-c", "echo the port is taken >&2; exit 3"])
    assert run("cluster", "stop") == 1
    (line,) = told(capsys)
    assert line == "[ERROR] ray stop failed with exit code 3: the port is taken"


def test_caddy_writes_a_file(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cluster", "caddy", "box1", "box2:9000") == 0
    printed = capsys.readouterr().out
    assert "to http://box1:8080 http://box2:9000" in printed
    assert run("cluster", "caddy", "box1", "box2:9000", "--out", "Caddyfile") == 0
    assert capsys.readouterr().out.startswith("Caddyfile: start it with `caddy run")
    assert (settings / "Caddyfile").read_text() == printed
    assert run("cluster", "caddy", "box1", "--out", "none/Caddyfile") == 1
    (line,) = told(capsys)
    assert line.startswith("[ERROR] none/Caddyfile cannot be written: No such file")


def test_a_node_writes_no_orders_to_the_terminal() -> None:
    there = Snapshot((node("box", model("\x1b[2Jchat", Rung.HOT)),))
    shown = as_text(there, {"other\x1b[2J": "answered 500: \x1b]0;title\x07"})
    assert "\\u001b[2Jchat" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown
