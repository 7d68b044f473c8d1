"""Hostile numbers and halves of characters, in any field of any route, cost only their sender."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.bodies import BODIES as EXAMPLES
from support.bodies import PNG
from support.cases import each
from support.examples import examples
from support.refusals import names, told
from support.server import Running, fake_pool, serving
from support.sounds import FORMS as SOUNDS
from support.sounds import encoded, melody
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from edgeserve.api.limits import Limits
from edgeserve.api.routes import ENTRIES, LIVE
from edgeserve.api.schema import Form, Record
from edgeserve.jobs import JOBS

BIAS = '{"1": %s, "2": 1}'
WAV = encoded(melody(1), SOUNDS["wav"])
MORE = {"Speech": {"response_format": "pcm"}, "Tokenize": {"content": "hello"}}
"""Fields beside the examples."""


def numbers(record: type[Record]) -> list[str]:
    kinds = {name: one.schema(Limits()).get("type") for name, one in record.FIELDS.items()}
    return sorted(name for name, kind in kinds.items() if kind in ("number", "integer") or name == "keep_alive")


RECORDS = [(one.path, one.body) for one in ENTRIES if one.body and one.body.FIELDS]
JSON_FIELDS = [
    (path, body.__name__, name) for path, body in RECORDS if not issubclass(body, Form) for name in numbers(body)
]
FORM_FIELDS = [(path, body, name) for path, body in RECORDS if issubclass(body, Form) for name in numbers(body)]
TEXTS = [
    *("nan", "inf", "-inf", "Infinity", "NaN", "1e999", "-1e999", "1e-320", "5e-324", "-1e-45", "1e-40", "1E+400"),
    *("１", "٣", "1_0", "0x1", "1e", "", " ", "--1", "+-1", "1.", ".5", "-0", "-0.0", "0e0", "1,5", "1/2", "½"),
    *("9" * 64, "9" * 65, "9" * 4299, "9" * 5000, "0." + "9" * 5000, "1e-5000", "0" * 60 + "1", "true", "None", "1 2"),
    *(
        "\x00",
        "1\x00",
        "1\n",
        "\u00a01",
        "\u20281",
        "9007199254740993",
        str(2**63),
        str(-(2**63) - 1),
        str(2**64),
        "1e308",
        "0.1e-37",
    ),
]
"""Texts of a form. JSON holds them as numbers where that is possible."""
VALUES = st.one_of(
    st.sampled_from(TEXTS),
    st.floats().map(repr),
    st.integers().map(str),
    st.integers(-(10**400), 10**400).map(str),
    st.text("0123456789+-.eE_ naif１٣", max_size=20),
)
SETTINGS = examples(250, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with serving(fake_pool((*JOBS, "rerank"), abilities="insert"), live_sessions=10_000) as running:
        yield running
        for path, body in (("/v1/chat", {"prompt": "hello"}), ("/v1/tts/synthesize", {"text": "hello"})):
            assert running.client.post(path, json=body).status_code == 200
        assert running.client.post("/v1/transcribe/file", files={"audio": WAV}).json()["text"] == "1"
        assert running.client.post("/v1/vision/ocr", files={"image": PNG}).status_code == 200
        assert [gate.leases for gate in running.pool.gates.values()] == [0] * 5


def check(answer: httpx.Response, field: str) -> None:
    """A 400 that names the field, or an answer in which every number is one."""
    assert answer.status_code in (200, 400), answer.text
    if answer.headers["content-type"] == "application/json":
        json.loads(answer.content.decode(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        if answer.status_code == 200:
            return
        error = told(answer)
        short = error["code"] == "context_length_exceeded"  # a field may leave another one no room
        assert error["param"] is None or short or names(answer, field.partition(".")[0])
        assert len(error["message"]) < 500


def post(served: Running, path: str, schema: str, field: str, written: str) -> httpx.Response:
    example = EXAMPLES[schema] | MORE.get(schema, {})
    body = {name: json.dumps(value) for name, value in example.items() if name != field}
    if field == "top_logprobs":
        body["logprobs"] = "true"
    body[field] = written
    text = "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in body.items()) + "}"
    return served.client.post(path, content=text.encode(), headers={"Content-Type": "application/json"})


def as_json(text: str, quoted: bool) -> str:
    """The text as a number where Python takes it for one, else as a string."""
    try:
        json.loads(text, parse_int=str)
    except ValueError:
        quoted = True
    return json.dumps(text) if quoted else text


def test_every_number_is_among_them() -> None:
    assert len(JSON_FIELDS) >= 40
    assert {field for _, _, field in FORM_FIELDS} == {"temperature", "keep_alive"}


@pytest.mark.slow
@SETTINGS
@given(st.sampled_from(JSON_FIELDS), VALUES, st.booleans())
def test_numbers_in_json(served: Running, place: tuple[str, str, str], text: str, quoted: bool) -> None:
    check(post(served, *place, as_json(text, quoted)), place[2])


@pytest.mark.slow
@SETTINGS
@given(st.sampled_from(FORM_FIELDS), VALUES)
def test_numbers_in_forms(served: Running, place: tuple[str, type[Form], str], text: str) -> None:
    path, record, field = place
    name = record.file_name()
    file = PNG if name == "image" else WAV
    check(served.client.post(path, files={name: file}, data={field: text}), field)


@pytest.mark.slow
@pytest.mark.parametrize("place", JSON_FIELDS, ids=lambda place: f"{place[0]}-{place[2]}")
def test_a_value_that_is_no_number_is_refused_by_name(served: Running, place: tuple[str, str, str]) -> None:
    for written in ("true", "false", "[1]", '{"a": 1}', '"x"', "1e999", "-1e999", "1" + "0" * 380):
        answer = post(served, *place, written)
        if place[2] == "keep_alive" and written.strip("-").startswith("1"):
            assert answer.status_code == 200, "more than a year is a year"
            continue
        assert answer.status_code == 400, (written, answer.text)
        assert names(answer, place[2])


@pytest.mark.slow
@SETTINGS
@given(VALUES, st.sampled_from(["/v1/chat/completions", "/v1/completions"]), st.booleans())
def test_biases(served: Running, text: str, path: str, is_key: bool) -> None:
    schema = "ChatCompletion" if "chat" in path else "RawCompletion"
    written = json.dumps({text: 1}) if is_key else BIAS % as_json(text, False)
    check(post(served, path, schema, "logit_bias", written), "logit_bias")


@pytest.mark.slow
@SETTINGS
@given(
    VALUES, st.sampled_from([("/v1/completions", "RawCompletion", "prompt"), ("/v1/embeddings", "Embedding", "input")])
)
def test_tokens(served: Running, text: str, place: tuple[str, str, str]) -> None:
    for form in ("[%s]", "[[1, %s]]"):
        check(post(served, *place, form % as_json(text, False)), place[2])


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VALUES)
def test_numbers_in_the_query_of_a_socket(served: Running, text: str) -> None:
    query = str(httpx.QueryParams({"keep_alive": text}))
    refused = None
    try:
        with connect(f"{served.url.replace('http', 'ws', 1)}{LIVE}?{query}") as socket:
            assert json.loads(socket.recv(timeout=10))["type"] == "started"
    except InvalidStatus as error:
        refused = error.response
    if refused is not None:
        assert refused.status_code == 400
        assert json.loads(refused.body)["error"]["param"] == "keep_alive"


def strings(value: Any, field: str = "") -> Iterator[tuple[str, list[str | int]]]:
    """Every place of a text or of a field's name in a body: its name in errors, and the path to it."""
    if isinstance(value, str):
        yield field, []
    elif isinstance(value, dict):
        for key, one in value.items():
            for name, way in strings(one, f"{field}.{key}" if field else key):
                yield name, [key, *way]
    elif isinstance(value, list):
        for index, one in enumerate(value):
            for name, way in strings(one, f"{field}[{index}]"):
                yield name, [index, *way]


CALL = {"name": "f", "arguments": "{}"}
TALK: Any = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": [{"type": "text", "text": "hello"}]},
    {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": CALL}]},
    {"role": "tool", "tool_call_id": "c", "content": "done"},
]
SCHEMA = {"type": "object", "title": "t"}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}
FORM = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat", {"prompt": "hello", "system": "s", "keep_alive": "5m"}),
    ("/v1/chat/stream", {"messages": TALK[:2]}),
    ("/v1/chat/soap", {"transcript": "hello"}),
    ("/v1/chat/summarize", {"text": "hello"}),
    ("/v1/chat/completions", {"messages": TALK, "stop": ["a", "b"], "user": "u", "metadata": {"a": "b"}}),
    ("/v1/chat/completions", {"messages": TALK[:1], "tools": [TOOL], "tool_choice": "auto", "logit_bias": {"1": 1}}),
    ("/v1/chat/completions", {"messages": TALK[:1], "response_format": FORM}),
    ("/v1/completions", {"prompt": ["a", "b"], "stop": "c", "model": "llm"}),
    ("/v1/embeddings", {"input": ["a", "b"], "encoding_format": "float", "model": "llm"}),
    ("/v1/rerank", {"query": "hello", "documents": ["a", {"text": "b"}], "model": "rerank"}),
    ("/v1/audio/speech", {"input": "hello", "voice": "tone", "instructions": "i", "model": "tts"}),
    ("/v1/tts/synthesize", {"text": "hello", "voice": "tone"}),
    ("/v1/transcribe/stream", {"language": "en", "prompt": "p"}),
    ("/memory/preload", {"engines": ["asr"]}),
    ("/memory/preload", {"models": [{"name": "fake-asr", "model_type": "asr"}]}),
]
PLACES = [(path, body, name, way) for path, body in BODIES for name, way in strings(body)]
HALVES = ("\ud800", "\udfff", "a\udc00b", "\udc00\ud800")


@pytest.mark.slow
@pytest.mark.parametrize("half", HALVES, ids=ascii)
def test_half_a_character_is_refused_with_the_field_that_holds_it(served: Running, half: str) -> None:
    for path, body, name, way in PLACES:
        changed = json.loads(json.dumps(body))
        inner = changed
        for step in way[:-1]:
            inner = inner[step]
        inner[way[-1]] += half
        answer = served.client.post(path, content=json.dumps(changed))
        assert answer.status_code == 400, (path, name, answer.text)
        error = answer.json()["error"]
        assert (path, error["param"], "half of a character" in error["message"]) == (path, name, True)


@each("path", sorted({path for path, _ in BODIES}))
def test_half_a_character_in_a_name(served: Running, path: str) -> None:
    answer = served.client.post(path, content=b'{"\\ud800": 1}', headers={"Content-Type": "application/json"})
    assert (answer.status_code, "half of a character" in answer.text) == (400, True)
    whole = served.client.post(path, content=b'{"\\ud83d\\ude00": 1}', headers={"Content-Type": "application/json"})
    refused = whole.json()["error"]["param"] == "\U0001f600"
    assert refused or whole.headers["x-edgeserve-ignored"] == "%F0%9F%98%80"


@pytest.mark.parametrize("charset", ["punycode", "unicode_escape", "utf-7", "utf-16", "idna", "hex", "nonesuch"])
def test_a_form_is_utf8(served: Running, charset: str) -> None:
    parts = b'--x\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n\\ud800\r\n--x--\r\n'
    for path in ("/v1/audio/transcriptions", "/v1/transcribe/file", "/v1/vision/ocr", "/v1/chat/completions"):
        headers = {"Content-Type": f"multipart/form-data; boundary=x; charset={charset}"}
        answer = served.client.post(path, content=parts, headers=headers)
        assert answer.status_code == 400, answer.text
        assert "must be UTF-8" in answer.json()["error"]["message"]
