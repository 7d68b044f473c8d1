"""Forms that cost more than they weigh."""

from __future__ import annotations

import tempfile
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.examples import examples
from support.raw import alive
from support.server import Running

from edgeserve.api import uploads

MB = 1 << 20
FORM = {"Content-Type": "multipart/form-data; boundary=b"}


def part(name: str, value: bytes, *lines: str, file: bool = False) -> bytes:
    head = f'Content-Disposition: form-data; name="{name}"' + ('; filename="f"' if file else "")
    return b"--b\r\n" + "\r\n".join([head, *lines, "", ""]).encode() + value + b"\r\n"


BOMBS = {
    "many fields": b"".join(part(f"f{number}", b"") for number in range(6_000)),
    "many files": b"".join(part("audio", b"", file=True) for _ in range(6_000)),
    "many names": b"".join(part(f"f{number}", b"", file=True) for number in range(6_000)),
    "many headers": part("audio", b"", *(f"X-{number}: 1" for number in range(6_000)), file=True),
    "a long header": part("audio", b"", "X: " + "x" * MB, file=True),
    "a long name": part("a" * MB, b""),
    "a long field": part("model", b"x" * (2 * MB)),
    "no end": part("audio", b"x", file=True)[:40],
    "no boundary": b"x" * MB,
    "line ends": b"\r\n" * MB,
    "almost boundaries": part("audio", b"\r\n--" * (MB // 2), file=True)[:-2],
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_form_that_is_none_is_the_clients_error(running: Running, bomb: bytes) -> None:
    answer = running.client.post("/v1/transcribe/file", content=bomb + b"--b--\r\n", headers=FORM)
    assert 400 <= answer.status_code < 500
    assert answer.json()["error"]["message"]
    assert alive(running)


def test_a_form_that_ends_early_is_said_to(client: httpx.Client) -> None:
    whole = part("audio", b"x" * 5000, file=True) + b"--b--\r\n"
    for end in (0, 10, len(whole) // 2, len(whole) - 12):
        answer = client.post("/v1/transcribe/file", content=whole[:end], headers=FORM)
        assert answer.status_code == 400
        assert "it ends before its last boundary" in answer.json()["error"]["message"]


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([b"--b", b"--", b"\r\n", b"\r", b"\n", b":", b"Content-Disposition", b'name="', b"\0"])),
    st.sampled_from(["b", "", '"', "b" * 300, "\x7f", "é".encode().decode("latin-1")]),
)
def test_noise_is_the_clients_error(running: Running, noise: list[bytes], boundary: str) -> None:
    kind = f"multipart/form-data; boundary={boundary}".encode("latin-1")
    headers: Any = [(b"Content-Type", kind)]
    answer = running.client.post("/v1/transcribe/file", content=b"".join(noise), headers=headers)
    assert 400 <= answer.status_code < 500


@pytest.mark.slow
def test_no_file_is_written(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A box may have no place to write to, and the limits count the memory of an upload."""

    def refused(*arguments: Any, **settings: Any) -> None:
        raise PermissionError("a read-only system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refused)
    answer = client.post("/v1/transcribe/file", files={"audio": b"these are words" * MB})
    assert answer.status_code == 415


def test_the_parser_works_on_small_pieces(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    pieces = uploads._pieces

    async def noted(request: Any) -> Any:
        async for one in pieces(request):
            sizes.append(len(one))
            yield one

    monkeypatch.setattr(uploads, "_pieces", noted)
    answer = running.client.post("/v1/transcribe/file", files={"audio": bytes(MB)})
    assert answer.status_code == 415
    assert sum(sizes) > MB
    assert max(sizes) <= uploads.PIECE_BYTES
