"""Sounds and files among the parts of a message."""

from __future__ import annotations

import base64
import contextlib
import importlib.util
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import httpx
import pytest
from PIL import Image
from support.answers import error
from support.server import Running, fake_pool, serving
from support.sounds import FORMS, encoded, melody

from edgeserve.api.conversation import MAX_FILES
from edgeserve.api.documents.reader import CHILD, CPU, MEMORY
from edgeserve.media.children import Children
from edgeserve.media.task import Bounds, Task
from edgeserve.processes.frames import Kind
from edgeserve.processes.launcher import make_launcher

WAV = encoded(melody(2), FORMS["wav"])


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def sound(data: bytes = WAV) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": b64(data), "format": "wav"}}


def document(data: bytes | str, name: str = "", kind: str = "text/plain") -> dict[str, Any]:
    address = data if isinstance(data, str) else f"data:{kind};base64,{b64(data)}"
    return {"type": "file", "file": {"file_data": address} | ({"filename": name} if name else {})}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def post(client: httpx.Client, *parts: Any, **fields: Any) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": list(parts)}]} | fields
    return client.post("/v1/chat/completions", json=body)


def said(client: httpx.Client, *parts: Any) -> str:
    answer = post(client, *parts)
    assert answer.status_code == 200, answer.text
    content: str = answer.json()["choices"][0]["message"]["content"]
    return content


def test_a_recording_becomes_its_words_in_its_place(client: httpx.Client, running: Running) -> None:
    assert said(client, text("before "), sound(), text(" after")) == "before 1 after"
    assert running.pool.gates["asr"].leases == 0


def test_a_text_stands_behind_its_name(client: httpx.Client) -> None:
    assert said(client, document("Störche".encode(), "birds.txt"), text("Which?")) == "birds.txt: Störche Which?"
    assert said(client, document(b64(b"\xef\xbb\xbfplain"))) == "plain"
    flat = {"type": "input_file", "filename": "a.md", "file_data": b64(b"# A")}
    assert said(client, flat) == "a.md: # A"


def test_a_picture_is_a_file_too(client: httpx.Client) -> None:
    out = BytesIO()
    Image.new("RGB", (5, 5)).save(out, "PNG")
    assert said(client, document(out.getvalue(), kind="application/octet-stream"), text("x")).startswith("1 images of")


def test_files_may_come_as_parts_of_the_form(client: httpx.Client) -> None:
    payload = (
        '{"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "attachment:s"}},'
        '{"type": "text", "text": " and "}, {"type": "file", "file": {"file_data": "attachment:f"}}]}]}'
    )
    files = {"payload": (None, payload), "s": ("s.wav", WAV), "f": ("f.txt", b"that")}
    answer = client.post("/v1/chat/completions", files=files)  # type: ignore[arg-type]
    assert answer.json()["choices"][0]["message"]["content"] == "1 and that"
    unused = client.post("/v1/chat/completions", files=files | {"g": ("g.txt", b"x")})  # type: ignore[arg-type]
    assert error(unused, 400)["param"] == "g"


@pytest.mark.parametrize(
    ("part", "status", "param", "told"),
    [
        (sound(b"no sound"), 415, "input_audio", "messages[0].content[0].input_audio"),
        (sound(b""), 400, "input_audio.data", "is required and must not be empty"),
        ({"type": "input_audio", "input_audio": {"data": "???"}}, 400, "input_audio", "the data are not base64"),
        (
            {"type": "input_audio", "input_audio": {"data": "http://a,b"}},
            400,
            "input_audio",
            "expected base64, or data:",
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "attachment:x"}},
            400,
            "input_audio",
            "no file part named 'x'",
        ),
        (document(b"\xff\xfe\x00"), 415, "file.file_data", "is no file that is read here"),
        (document(b"a\0b"), 415, "file.file_data", "is no file that is read here"),
        (document(b"x" * 300_000), 413, "file.file_data", "has 300000 characters; the limit is 262144"),
        ({"type": "file", "file": {"file_id": "file-1"}}, 400, "file.file_id", "this server keeps no files"),
        ({"type": "file", "file": {}}, 400, "file.file_data", "is required"),
        ({"type": "input_file", "file_url": "http://a/b.pdf"}, 400, "file_url", "fetches no files"),
    ],
)
def test_a_wrong_part_is_named(client: httpx.Client, part: Any, status: int, param: str, told: str) -> None:
    failure = error(post(client, part), status)
    assert failure["param"] == f"messages[0].content[0].{param}"
    assert told in failure["message"]


def test_more_files_than_the_limit(client: httpx.Client) -> None:
    failure = error(post(client, *[document(b"x")] * (MAX_FILES + 1)), 400)
    assert failure["message"] == f"messages hold {MAX_FILES + 1} sounds and files; the limit is {MAX_FILES}"


def test_a_server_without_transcription_says_so() -> None:
    with serving(fake_pool(["llm"])) as running:
        assert "asr" in error(post(running.client, sound()), 404)["message"]


def test_a_server_on_threads_reads_no_pdf(client: httpx.Client) -> None:
    failure = error(post(client, document(b"%PDF-1.7\n")), 400)
    assert (failure["code"], failure["param"]) == ("not_supported", "messages[0].content[0].file.file_data")


@pytest.fixture(scope="module")
def apart() -> Iterator[Running]:
    with serving(fake_pool(["llm"]), isolation="auto") as running:
        yield running


def pdf(*lines: str, pages: int = 1) -> bytes:
    """A PDF file of as many pages, each with these lines."""
    shown = " ".join(f"({line}) Tj 0 -20 Td" for line in lines)
    stream = f"BT /F1 12 Tf 50 700 Td {shown} ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join([b"3 0 R"] * pages), pages),
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    return data + head + b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(data)


needs_pypdf = pytest.mark.skipif(importlib.util.find_spec("pypdf") is None, reason="pypdf (extra pdf) is not installed")


@needs_pypdf
def test_the_text_of_a_pdf_file_is_read_in_a_child(apart: Running) -> None:
    assert said(apart.client, document(pdf("Herons are", "grey birds"), "a.pdf")) == "a.pdf: Herons are grey birds"


@needs_pypdf
def test_each_page_shows_that_the_work_goes_on() -> None:
    with contextlib.closing(Children(make_launcher())) as children:
        task = Task(f"{CHILD}:text", "PDF reader", "file", Bounds(MEMORY, CPU))
        with children.start(task) as helper:
            helper.send({"param": "file", "max_chars": 100, "max_pages": 3}, pdf("heron", pages=3))
            frames = [helper.receive() for _ in range(4)]
    assert [frame.kind for frame in frames] == [Kind.EVENTS] * 3 + [Kind.DONE]
    assert {bytes(frame.body).strip() for frame in frames[:3]} == {b"heron"}


@needs_pypdf
def test_the_pages_of_a_pdf_file_are_joined(apart: Running) -> None:
    assert said(apart.client, document(pdf("heron", pages=2), "a.pdf")) == "a.pdf: heron heron"


@needs_pypdf
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"%PDF-1.7\nnothing", "is damaged or of a kind of PDF that is not read"),
        (pdf("x").replace(b"/Kids [3 0 R]", b"/Kids [2 0 R]"), "PDF"),
    ],
)
def test_a_broken_pdf_file_is_refused(apart: Running, data: bytes, told: str) -> None:
    failure = error(post(apart.client, document(data)), 415)
    assert told in failure["message"]


def test_without_pypdf_the_error_says_what_to_install(apart: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    failure = error(post(apart.client, document(pdf("x"))), 400)
    assert failure["code"] == "not_supported"
    assert "pip install 'edgeserve[pdf]'" in failure["message"]
