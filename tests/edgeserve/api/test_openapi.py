"""The OpenAPI document and the parsers agree: every route accepts the documented values and refuses all others."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import pytest
from jsonschema.validators import extend
from starlette.routing import Route
from support.bodies import BODIES, PNG, TALK
from support.cases import each
from support.server import Running, fake_pool, serving
from support.sounds import FORMS, encoded, melody

from edgeserve.api.admin import Preload
from edgeserve.api.entry import Entry
from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.native.chat import Chat
from edgeserve.api.responses.tools import FlatTools
from edgeserve.api.routes import ENTRIES, routes
from edgeserve.api.schema import File, Form, Record
from edgeserve.api.sound import transcripts
from edgeserve.audio import encode
from edgeserve.audio.wav import wav
from edgeserve.errors import EdgeserveError
from edgeserve.jobs import JOBS

LIMITS = Limits(unknown_fields="refuse")
TOOLS = [{"type": "function", "function": {"name": "1"}}]
VOICE = base64.b64encode(wav([bytes.fromhex("0020") * 16_000], 16_000)).decode()
"""A second of sound with a voice, as the fakes tell voices apart."""
BESIDE: dict[str, dict[str, Any]] = {
    "diarize": {"response_format": "verbose_json"},
    "known_speaker_names": {"response_format": "verbose_json", "known_speaker_references": VOICE},
    "known_speaker_references": {"response_format": "verbose_json", "known_speaker_names": "Ann"},
    "function_call": {"functions": [{"name": "1"}]},
    "continue_final_message": {"messages": [*TALK, {"role": "assistant", "content": "hello"}]},
    "top_logprobs": {"logprobs": True},
    "stream_options": {"stream": True},
    "tool_choice": {"tools": TOOLS},
    "messages": {"prompt": None},
    "texts": {"documents": None},
}
"""Other fields that a field needs."""
FLAT = {"tool_choice": {"tools": [{"type": "function", "name": "1"}]}}
"""The same in the dialect whose tools are flat."""
NAMES = {
    "voice": "tone",
    "known_speaker_references": VOICE,
    "language": "en",
    "model": None,
    "engines": ["asr"],
    "models": [{"model_type": "asr"}],
    "messages": TALK,
    "lora": [],
    "name": None,
    "think": False,
    "images": [],
    "context": [],
    "previous_response_id": "",
}
"""Values of fields that name a thing of the server; None for a field that is left out here."""
SPOKEN = {"context": "is not the context of an answer of this server"}
"""The errors of fields whose rules the schema does not express in full."""
GENERIC: list[Any] = [None, "", " ", "x", "5m", "x" * 300, 0, 1, -1, 0.5, 1e30, -1e30, True, False]
GENERIC += [[], ["x"], ["text"], ["x"] * 9, [1], [1.0], [True], [[1]], [{}], {}, {"type": "text"}, {"x": 1}, {"a": {}}]
GENERIC += [{"5": 1}, {"5": 101}, {"5": "x"}]


def json_object(validator: Any, media: str, instance: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    """Checks ``contentMediaType``, which a validator may ignore."""
    try:
        valid = not isinstance(instance, str) or isinstance(json.loads(instance or "{}"), dict)
    except ValueError:
        valid = False
    if not valid:
        yield jsonschema.ValidationError(f"{instance!r} is not {media}")


Validator: Any = extend(jsonschema.Draft202012Validator, {"contentMediaType": json_object})


def sample(schema: Any) -> Any:
    """A small value that the schema allows."""
    if "oneOf" in schema:
        return sample(schema["oneOf"][0])
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    match schema.get("type"):
        case "object":
            return {name: sample(schema["properties"][name]) for name in schema.get("required", ())}
        case "array":
            return [sample(schema["items"])] * max(1, schema.get("minItems", 0))
        case "number" | "integer":
            return max(schema.get("minimum", 0), 0)
        case "boolean":
            return True
        case "string":
            return "{}" if "contentMediaType" in schema else "1" * min(1, schema.get("maxLength", 1))
        case _:
            return None


def candidates(schema: Any) -> Iterator[Any]:
    """Values around the bounds of the schema, inside and outside."""
    yield from GENERIC
    for one in schema.get("oneOf", ()):
        yield from candidates(one)
    for value in schema.get("enum", ()):
        yield from (value, f"{value}x")
    for bound in (schema[name] for name in ("minimum", "maximum") if name in schema):
        yield from (bound, bound - 1, bound + 1, bound + 0.5)
    for length in (schema[name] for name in ("minLength", "maxLength") if name in schema):
        yield from ("x" * length, "x" * (length + 1))
    if "maxItems" in schema:
        yield from ([sample(schema["items"])] * (schema["maxItems"] + more) for more in (0, 1))
    if isinstance(schema.get("items"), dict):
        yield from ([one] for one in candidates(schema["items"]))
    whole = sample(schema) if schema.get("type") == "object" else {}
    for name, nested in schema.get("properties", {}).items():
        yield {key: one for key, one in whole.items() if key != name}
        yield from (whole | {name: one} for one in candidates(nested))


def distinct(values: Iterator[Any]) -> list[Any]:
    return list({json.dumps(one): one for one in values}.values())


def fitting(record: type[Record], schema: Any, values: list[Any]) -> list[Any]:
    """The values that keep their type in the record's media type: a form holds only text, and no null."""
    if not issubclass(record, Form):
        return values
    values = [one for one in values if one is not None]
    if schema.get("type") == "string":
        return [one for one in values if isinstance(one, str)]
    if schema.get("type") == "number":
        return [one for one in values if not isinstance(one, str | list | dict) or one in ("x", "5m")]
    if schema.get("type") == "boolean":
        return [one for one in values if isinstance(one, bool) or one in ("x", "5m")]
    return [one for one in values if isinstance(one, str) or (isinstance(one, list) and "x" in one)]


def given(record: type[Record], fields: dict[str, Any]) -> Fields:
    """The fields as the record's media type writes them."""
    if not issubclass(record, Form):
        return Fields(fields)
    return Fields({record.file_name(): b"file"} | {name: as_text(one) for name, one in fields.items()}, written=True)


def as_text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def needs(record: type[Record], name: str) -> dict[str, Any]:
    """Other fields that a field of the record needs."""
    return (BESIDE | (FLAT if issubclass(record, FlatTools) else {})).get(name, {})


def refusal(record: type[Record], fields: dict[str, Any]) -> EdgeserveError | None:
    try:
        record(given(record, fields), LIMITS)
    except EdgeserveError as error:
        return error
    return None


RECORDS = sorted({one.body for one in ENTRIES if one.body and one.body.FIELDS}, key=lambda one: one.__name__)


def label(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else str(value)


@pytest.mark.slow
@pytest.mark.parametrize("record", RECORDS, ids=label)
def test_the_parser_accepts_the_documented_values_and_no_others(record: type[Record]) -> None:
    for name in (name for name, field in record.FIELDS.items() if not isinstance(field, File)):
        agree(record, name)


@functools.cache
def described(record: type[Record]) -> tuple[Validator, dict[str, Any]]:
    """A validator of the record, and the schemas of its fields."""
    whole = record.describe(LIMITS)
    return Validator(whole), whole["properties"]


def agree(record: type[Record], name: str) -> None:
    """The parser and the schema of the record, about one field."""
    validator, schemas = described(record)
    schema = schemas[name]
    file = {record.file_name(): "file"} if issubclass(record, Form) else {}
    seen = set()
    for value in fitting(record, schema, distinct(candidates(schema))):
        beside = {key: one for key, one in needs(record, name).items() if key in record.FIELDS and value is not None}
        fields = BODIES[record.__name__] | beside | {name: value}
        valid = validator.is_valid(fields | file)
        seen.add(valid)
        error = refusal(record, fields)
        if valid:
            assert error is None or SPOKEN.get(name, "no rule") in error.message, (name, value, error)
        else:
            assert error is not None, (name, value)
            assert (error.param or "").startswith(name), (name, value, error.message)
    assert True in seen or schema.get("type") == "null", name
    assert False in seen or issubclass(record, Form) or set(schema) == {"description"}, name


CALLS = [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}]
CALLED = {"name": "add", "arguments": "{}"}
ANSWERED = {"role": "tool", "content": "7", "tool_call_id": "call_1"}
NEEDS: list[tuple[type[Record], dict[str, Any], str]] = [
    (Preload, {}, "engines"),
    (Preload, {"engines": [], "models": None}, "engines"),
    (Preload, {"engines": None, "models": [{"model_type": "asr"}]}, ""),
    (Preload, {"models": [{}]}, "models[0].name"),
    (Preload, {"models": [{"name": " ", "model_type": None}]}, "models[0].name"),
    (Preload, {"models": [{"name": "a", "rung": "hot"}]}, ""),
    (Chat, {"system": "Be short."}, "prompt"),
    (Chat, {"prompt": " ", "messages": None}, "prompt"),
    (Chat, {"messages": TALK, "prompt": None, "system": None}, ""),
    (Chat, {"messages": TALK, "prompt": ""}, "prompt"),
    (Chat, {"messages": TALK, "system": "Be short."}, "system"),
    (Chat, {"messages": None, "prompt": "a", "system": "Be short."}, ""),
    (Chat, {"messages": [{"role": "tool", "content": "7"}]}, ""),
    (Chat, {"messages": [{"role": "tool", "content": None, "tool_call_id": None}]}, ""),
    (Chat, {"messages": [{"role": "tool", "content": "7", "tool_calls": CALLS}]}, "messages[0].tool_calls"),
    (Chat, {"messages": [{"role": "user", "content": "a", "function_call": CALLED}]}, "messages[0].function_call"),
    (Chat, {"messages": [{"role": "assistant", "function_call": CALLED}, {"role": "function", "name": "add"}]}, ""),
    (Chat, {"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    (Chat, {"messages": [{"role": "user", "content": "a", "tool_calls": CALLS}]}, "messages[0].tool_calls"),
    (Chat, {"messages": [{"role": "user", "content": "a", "tool_calls": []}]}, ""),
    (Chat, {"messages": [{"role": "assistant", "content": None}]}, ""),
    (Chat, {"messages": [{"role": "assistant", "tool_calls": []}]}, ""),
    (Chat, {"messages": [{"role": "assistant", "tool_calls": CALLS}, ANSWERED]}, ""),
]


@each(("record", "fields", "param"), NEEDS)
def test_what_a_record_needs_is_documented(record: type[Record], fields: dict[str, Any], param: str) -> None:
    error = refusal(record, fields)
    assert (error.param if error else "") == param
    assert Validator(record.describe(LIMITS)).is_valid(fields) == (not param)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """With a model that tells speakers apart, which the server of the other tests of routes lacks."""
    with serving(fake_pool((*JOBS, "rerank", "speaker"), abilities="insert")) as running:
        yield running


@pytest.fixture(scope="module")
def document(running: Running) -> Any:
    return running.client.get("/openapi.json").json()


@pytest.mark.slow
def test_the_document_is_valid(document: Any) -> None:
    from openapi_spec_validator import validate

    validate(document)


def test_the_document_has_every_route_and_no_other(document: Any) -> None:
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    ours = [route for route in routes() if isinstance(route, Route) and route.include_in_schema]
    served = {(method, re.sub(r":\w+}", "}", route.path)) for route in ours for method in route.methods or ()}
    assert described == {pair for pair in served if pair[0] != "HEAD"}
    assert len(described) == len(ENTRIES)


def ask(client: httpx.Client, path: str, record: type[Record], fields: dict[str, Any]) -> httpx.Response:
    if not issubclass(record, Form):
        return client.post(path, json={name: one for name, one in fields.items() if one is not None})
    name = record.file_name()
    texts = {f"{key}[]" if isinstance(one, list) else key: as_text(one) for key, one in fields.items()}
    return client.post(path, files={name: PNG if name == "image" else WAV}, data=texts)


WAV = encoded(melody(1), FORMS["wav"])
PULLING = ("/admin/pull", "/models", "/api/pull")
"""Routes that fetch models, which this server has no store for; tests/edgeserve/api/manage has one."""
ROUTES = [
    (one.path, one.body)
    for one in ENTRIES
    if one.body and one.body.FIELDS and one.method == "POST" and one.path not in PULLING and "{" not in one.path
]
"""Routes with a part in their path have tests of their own."""


@pytest.mark.slow
@pytest.mark.parametrize(("path", "record"), ROUTES, ids=label)
def test_a_route_takes_every_documented_field(running: Running, document: Any, path: str, record: type[Record]) -> None:
    base = BODIES[record.__name__]
    assert ask(running.client, path, record, base).status_code == 200
    properties = document["components"]["schemas"][record.__name__]["properties"]
    assert set(properties) == set(record.FIELDS)
    for name, schema in properties.items():
        value = NAMES.get(name, sample(schema))
        if value is None or schema.get("format") == "binary":
            continue
        answer = ask(running.client, path, record, base | needs(record, name) | {name: value})
        assert answer.status_code == 200, (name, value, answer.text)
        if path == "/v1/transcribe/stream":
            running.client.delete(f"{path}/{answer.json()['session']}").raise_for_status()


@pytest.mark.slow
@pytest.mark.parametrize(("path", "record"), ROUTES, ids=label)
def test_a_route_refuses_every_other_value(running: Running, document: Any, path: str, record: type[Record]) -> None:
    for name, schema in document["components"]["schemas"][record.__name__]["properties"].items():
        if schema.get("format") == "binary":
            continue
        validator = Validator(schema)
        for wrong in (
            one for one in fitting(record, schema, distinct(candidates(schema))) if not validator.is_valid(one)
        ):
            answer = ask(running.client, path, record, BODIES[record.__name__] | {name: wrong})
            missing = answer.status_code == 404 and path == "/memory/preload"
            assert answer.status_code == 400 or missing, (name, wrong, answer.text)
            assert named(answer).startswith(name), (name, wrong, answer.text)
            break  # the parser's test has all of them


def named(answer: httpx.Response) -> str:
    """The field that an error names. Ollama's errors are a sentence, which begins with it but for ``think``."""
    error = answer.json()["error"]
    return error.removeprefix("invalid ") if isinstance(error, str) else str(error["param"])


def undeclared(running: Running, path: str, record: type[Record]) -> httpx.Response:
    return ask(running.client, path, record, BODIES[record.__name__] | {"colour": "red"})


def refused(answer: httpx.Response) -> bool:
    if answer.status_code != 400:
        return False
    error = answer.json()["error"]
    message = error if isinstance(error, str) else error["message"]
    return named(answer).startswith("colour") and message.startswith("colour is not a known field; known are: ")


@pytest.mark.parametrize(("path", "record"), [one for one in ROUTES if not one[1].OPEN], ids=label)
def test_a_route_ignores_an_undeclared_field_and_names_it(running: Running, path: str, record: type[Record]) -> None:
    answer = undeclared(running, path, record)
    if record.STRICT:
        assert refused(answer)
    else:
        assert answer.status_code == 200
        assert answer.headers["x-edgeserve-ignored"] == "colour"
    if path == "/v1/transcribe/stream" and answer.status_code == 200:
        running.client.delete(f"{path}/{answer.json()['session']}").raise_for_status()


@pytest.fixture(scope="module")
def strict() -> Iterator[Running]:
    with serving(fake_pool((*JOBS, "rerank"), abilities="insert"), unknown_fields="refuse") as running:
        yield running


@each(("path", "record"), [one for one in ROUTES if not one[1].OPEN])
def test_a_strict_server_refuses_an_undeclared_field(strict: Running, path: str, record: type[Record]) -> None:
    assert refused(undeclared(strict, path, record))


def test_the_document_says_whether_undeclared_fields_are_refused(document: Any, strict: Running) -> None:
    schemas = strict.client.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["ChatCompletion"]["additionalProperties"] is False
    assert "additionalProperties" not in document["components"]["schemas"]["ChatCompletion"]
    assert document["components"]["schemas"]["Preload"]["additionalProperties"] is False


@each("entry", [one for one in ENTRIES if one.query])
def test_a_query_is_documented(document: Any, entry: Entry) -> None:
    parameters = document["paths"][entry.path][entry.method.lower()]["parameters"]
    assert entry.query is not None
    assert {one["name"] for one in parameters if one["in"] == "query"} == set(entry.query.FIELDS)


@pytest.mark.parametrize("path", [one.path for one in ENTRIES if one.headers])
def test_a_query_is_documented_with_its_headers(running: Running, document: Any, path: str) -> None:
    told = {(one["in"], one["name"]) for one in document["paths"][path]["post"]["parameters"]}
    assert told == {("query", "session"), ("header", "X-Session-Id")}
    assert running.client.post(path, params={"session": "gone"}).json()["error"]["param"] == "session"
    assert running.client.post(path, headers={"X-Session-Id": "gone"}).json()["error"]["param"] == "session"
    assert running.client.post(path, params={"colour": "red"}).json()["error"]["param"] == "colour"


FORMATS: dict[str, list[dict[str, Any]]] = {
    "/v1/chat/completions": [{}, {"stream": True}],
    "/completion": [{}, {"stream": True}],
    "/infill": [{}, {"stream": True}],
    "/v1/completions": [{}, {"stream": True}],
    "/v1/audio/transcriptions": [{"response_format": one} for one in transcripts.FORMS] + [{"stream": True}],
    "/v1/audio/translations": [{"response_format": one} for one in transcripts.FORMS],
    "/v1/messages": [{}, {"stream": True}],
    "/v1/responses": [{}, {"stream": True}],
    "/api/chat": [{}, {"stream": False}],
    "/api/generate": [{}, {"stream": False}],
    "/v1/audio/speech": [{"response_format": one} for one in encode.FORMS] + [{"stream_format": "sse"}],
}
"""Fields that choose the media type of a success."""


@pytest.mark.slow
@pytest.mark.parametrize(("path", "record"), ROUTES, ids=label)
def test_every_media_type_of_a_success_is_documented(
    running: Running, document: Any, path: str, record: type[Record]
) -> None:
    answers = [ask(running.client, path, record, BODIES[record.__name__] | one) for one in FORMATS.get(path, [{}])]
    assert {one.status_code for one in answers} == {200}
    seen = {one.headers["content-type"].partition(";")[0] for one in answers}
    assert seen == set(document["paths"][path]["post"]["responses"]["200"]["content"])
    if path == "/v1/transcribe/stream":
        running.client.delete(f"{path}/{answers[0].json()['session']}").raise_for_status()


def test_links_lead_from_an_answer_to_the_next_request(running: Running, document: Any) -> None:
    routes = {
        operation["operationId"]: (method, path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    bodies = {(one.method.lower(), one.path): BODIES[one.body.__name__] for one in ENTRIES if one.links and one.body}
    followed = []
    for method, path, operation in routes.values():
        for link in operation["responses"]["200"].get("links", {}).values():
            answer = running.client.request(method, path, json=bodies.get((method, path))).json()
            next_method, next_path, next_operation = routes[link["operationId"]]
            for name, expression in link["parameters"].items():
                value = resolve(answer, expression)
                where, _, parameter = name.partition(".")
                assert (parameter, where) in {(one["name"], one["in"]) for one in next_operation["parameters"]}
                if where == "path":
                    next_path = next_path.replace(f"{{{parameter}}}", value)
                else:
                    next_path += f"?{parameter}={value}"
            assert running.client.request(next_method, next_path).status_code == 200
            followed.append(next_path.partition("?")[0])
            if "session" in answer and followed[-1] == "/v1/transcribe/push":
                running.client.delete(f"{path}/{answer['session']}").raise_for_status()
    assert len(followed) == 7


def resolve(answer: Any, expression: str) -> str:
    """The value that a runtime expression of OpenAPI (4.8.20.4) means."""
    steps = expression.removeprefix("$response.body#/").split("/")
    assert "$" not in steps[0]
    for step in steps:
        answer = answer[int(step)] if isinstance(answer, list) else answer[step]
    return str(answer)


def test_a_form_names_the_media_types_of_its_file(document: Any) -> None:
    for one in ENTRIES:
        if one.body and issubclass(one.body, Form):
            content = document["paths"][one.path]["post"]["requestBody"]["content"]["multipart/form-data"]
            (name,) = content["encoding"]
            assert name == one.body.file_name()
            assert content["encoding"][name]["contentType"].startswith("image/" if name == "image" else "audio/*")


def test_a_full_server_is_documented(document: Any) -> None:
    for path, item in document["paths"].items():
        shapes = {"/api/": "OllamaBusy", "/v1/messages": "AnthropicBusy"}
        busy = next((name for beginning, name in shapes.items() if path.startswith(beginning)), "Busy")
        references = [one["responses"]["503"]["$ref"] for one in item.values()]
        assert set(references) == {f"#/components/responses/{busy}"}
        assert "Retry-After" in document["components"]["responses"][busy]["headers"]


def test_bounds_follow_the_settings_of_the_server() -> None:
    schema = next(one for one in RECORDS if one.__name__ == "Speech").describe(Limits(max_text_chars=10))
    assert schema["properties"]["input"]["maxLength"] == 10
