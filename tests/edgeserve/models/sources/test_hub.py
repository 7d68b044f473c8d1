"""The model hub, through huggingface_hub against a server that speaks its protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.http_files import Files, serving_files

from edgeserve.errors import SourceUnavailable
from edgeserve.models.sources import hub
from edgeserve.models.sources.source import HubSource

pytestmark = pytest.mark.slow

DATA = os.urandom(200_000)
CODE = """
import json, os, sys, time
from pathlib import Path
from edgeserve.errors import Cancelled, EdgeserveError
from edgeserve.models.sources import hub
from edgeserve.models.sources.source import HubSource

into, member = Path(sys.argv[1]), sys.argv[2]
if "HURRY" in os.environ:
    time.sleep = lambda seconds: None
try:
    if "READ" in os.environ:
        print(json.dumps({"read": len(hub.read(HubSource("org/repo", {}), member))}))
    elif member:
        told = []
        def report(*now):
            told.append(now)
            if "GIVE_UP" in os.environ:
                raise Cancelled("given up")
        files = hub.fetch(HubSource("org/repo", {"model": member}), into, report, 5)
        print(json.dumps({"name": files["model"].name, "size": files["model"].stat().st_size, "told": len(told)}))
    else:
        print(json.dumps(hub.list_files("org/repo", "main")))
except EdgeserveError as error:
    print(json.dumps({"code": error.code, "message": error.message}))
"""


@pytest.fixture
def files() -> Iterator[Files]:
    with serving_files() as files:
        files.data["/org/repo/resolve/main/sub/m.gguf"] = DATA
        yield files


def run(endpoint: str, into: Path, member: str, **environ: str) -> dict[str, object]:
    """In a process of its own: the library reads HF_ENDPOINT when it is imported."""
    known = {"HF_ENDPOINT": endpoint, "HF_HOME": str(into / "home"), "HF_HUB_DISABLE_XET": "1", **environ}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")} | known
    command = [sys.executable, "-c", CODE, str(into), member]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    told: dict[str, object] = json.loads(ended.stdout)
    return told


def test_a_file_is_fetched_under_its_name(files: Files, tmp_path: Path) -> None:
    told = run(files.url, tmp_path, "sub/m.gguf")
    assert (told["name"], told["size"]) == ("m.gguf", len(DATA))
    assert (tmp_path / "m.gguf").read_bytes() == DATA
    assert not (tmp_path / "hub").exists()


def test_a_small_file_is_read_and_a_large_one_is_not_even_fetched(files: Files, tmp_path: Path) -> None:
    files.data["/org/repo/resolve/main/config.json"] = b"{}"
    assert run(files.url, tmp_path, "config.json", READ="1") == {"read": 2}
    files.data["/org/repo/resolve/main/config.json"] = b"{}" + b" " * hub.SMALL
    got = files.gets("/org/repo/resolve/main/config.json")
    told = run(files.url, tmp_path, "config.json", READ="1")
    assert "config.json of hub org/repo@main has 1048578 bytes" in str(told["message"])
    assert files.gets("/org/repo/resolve/main/config.json") == got


def test_the_files_of_a_repository_are_listed(files: Files, tmp_path: Path) -> None:
    assert run(files.url, tmp_path, "") == ["sub/m.gguf"]


def test_a_missing_file_is_an_error(files: Files, tmp_path: Path) -> None:
    told = run(files.url, tmp_path, "none.gguf")
    assert told["code"] == "source_unavailable"
    assert "has no such file" in str(told["message"])


def test_a_gated_model_names_the_token(files: Files, tmp_path: Path) -> None:
    files.token = "sesame"
    assert "set HF_TOKEN" in str(run(files.url, tmp_path, "sub/m.gguf")["message"])
    assert run(files.url, tmp_path, "sub/m.gguf", HF_TOKEN="sesame")["size"] == len(DATA)


@pytest.mark.parametrize("repository", ["a b/c d", "-/-", "x" * 200 + "/y", "o/r.git"])
def test_an_invalid_repository_is_an_error(repository: str, tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="is not what a hub can answer"):
        hub.fetch(HubSource(repository, {"model": "m.gguf"}), tmp_path, lambda done, total: None, 0)


def test_an_unreachable_hub_is_an_error(tmp_path: Path) -> None:
    with serving_files() as files:
        gone = files.url
    told = run(gone, tmp_path, "sub/m.gguf", HURRY="1")  # the library waits for 23 s between its tries
    assert "cannot be reached" in str(told["message"])
    assert "HF_ENDPOINT" in str(told["message"])


def test_a_download_ends_at_once_when_its_report_gives_up(files: Files, tmp_path: Path) -> None:
    told = run(files.url, tmp_path, "sub/m.gguf", GIVE_UP="1")
    assert told == {"code": "cancelled", "message": "given up"}
    assert list(tmp_path.glob("*.gguf")) == []
