"""Plain downloads: whole, resumed, restarted, refused."""

from __future__ import annotations

import base64
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.http_files import Files, serving_files

from edgeserve.errors import SourceUnavailable, StoreError
from edgeserve.models.sources import url
from edgeserve.models.sources.source import UrlSource

DATA = b"GGUF" + os.urandom(300_000)


@pytest.fixture
def files() -> Iterator[Files]:
    with serving_files() as files:
        files.data["/m.gguf"] = DATA
        yield files


def fetch(files: Files, into: Path, path: str = "/m.gguf") -> bytes:
    return url.fetch(UrlSource(files.url + path), into, lambda done, total: None, 0)["model"].read_bytes()


def test_a_file_is_fetched_with_progress(files: Files, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    got = url.fetch(UrlSource(f"{files.url}/m.gguf"), tmp_path, lambda *now: told.append(now), 0)
    assert got["model"].read_bytes() == DATA
    assert told[-1] == (len(DATA), len(DATA))
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]


def test_a_redirect_is_followed(files: Files, tmp_path: Path) -> None:
    files.redirects["/old.gguf"] = "/m.gguf"
    assert fetch(files, tmp_path, "/old.gguf") == DATA


def test_redirects_without_end_are_refused(files: Files, tmp_path: Path) -> None:
    files.redirects |= {f"/{number}.gguf": f"/{number + 1}.gguf" for number in range(9)}
    with pytest.raises(SourceUnavailable, match="answered 302"):
        fetch(files, tmp_path, "/0.gguf")


def test_a_cut_connection_is_taken_up_where_it_stopped(files: Files, tmp_path: Path) -> None:
    files.cut_after = 100_000
    with pytest.raises(SourceUnavailable, match="go on where it stopped"):
        fetch(files, tmp_path)
    have = (tmp_path / "m.gguf.part").stat().st_size
    assert 0 < have <= 100_000
    assert fetch(files, tmp_path) == DATA
    assert files.requests[-1][2] == f"bytes={have - 1}-"


def test_a_complete_part_is_not_fetched_again(files: Files, tmp_path: Path) -> None:
    files.cut_after = 100_000
    with pytest.raises(SourceUnavailable):
        fetch(files, tmp_path)
    (tmp_path / "m.gguf.part").write_bytes(DATA)
    assert fetch(files, tmp_path) == DATA
    assert files.requests[-1][2] == f"bytes={len(DATA) - 1}-"


def test_a_cut_note_of_the_identity_begins_anew(files: Files, tmp_path: Path) -> None:
    files.cut_after = 100_000
    with pytest.raises(SourceUnavailable):
        fetch(files, tmp_path)
    (mark,) = (path for path in tmp_path.iterdir() if path.name not in ("m.gguf.part", "m.gguf"))
    mark.write_text('"half', encoding="utf-8")
    assert fetch(files, tmp_path) == DATA
    assert files.requests[-1][2] is None


def test_a_server_without_ranges_begins_anew(files: Files, tmp_path: Path) -> None:
    files.cut_after, files.ranges = 100_000, False
    with pytest.raises(SourceUnavailable):
        fetch(files, tmp_path)
    assert fetch(files, tmp_path) == DATA


def test_a_file_that_changed_meanwhile_begins_anew(files: Files, tmp_path: Path) -> None:
    files.cut_after = 100_000
    with pytest.raises(SourceUnavailable):
        fetch(files, tmp_path)
    files.data["/m.gguf"] = other = b"GGUF" + os.urandom(200_000)
    assert fetch(files, tmp_path) == other


@pytest.mark.parametrize("status", [401, 404, 500])
def test_an_error_of_the_server_is_reported(files: Files, tmp_path: Path, status: int) -> None:
    files.status = status
    with pytest.raises(SourceUnavailable, match=f"answered {status}"):
        fetch(files, tmp_path)


def test_an_address_without_a_server(tmp_path: Path) -> None:
    with serving_files() as files:
        gone = files.url
    with pytest.raises(SourceUnavailable, match="broke off"):
        url.fetch(UrlSource(f"{gone}/m.gguf"), tmp_path, lambda done, total: None, 0)


def test_from_https_to_http_is_refused() -> None:
    request = urllib.request.Request("https://models.invalid/m.gguf")
    with pytest.raises(StoreError, match="unencrypted"):
        url._Redirects().redirect_request(request, None, 302, "Found", {}, "http://models.invalid/m.gguf")


def test_secrets_of_an_address_are_not_shown() -> None:
    address = "https://me:word@models.invalid:8443/m.gguf?token=x"
    assert str(UrlSource(address)) == "https://models.invalid:8443/m.gguf"


def test_a_name_and_a_password_of_an_address_are_sent_to_its_server_alone(files: Files, tmp_path: Path) -> None:
    files.redirects["/old.gguf"] = "/m.gguf"
    address = files.url.replace("://", "://me:p%40ss:word@") + "/old.gguf"
    url.fetch(UrlSource(address), tmp_path, lambda done, total: None, 0)
    assert files.authorizations == [f"Basic {base64.b64encode(b'me:p@ss:word').decode()}", None]
