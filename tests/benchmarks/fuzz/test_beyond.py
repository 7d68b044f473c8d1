from __future__ import annotations

import json

from benchmarks.fuzz import beyond
from support.cases import each

from edgeserve.api.routes import ENTRIES


def refusal(param: str | None, message: str, code: str = "invalid_request") -> bytes:
    return json.dumps({"error": {"message": message, "type": "t", "code": code, "param": param}}).encode()


@each(
    ("media", "status", "body", "line"),
    [
        ("application/json; charset=utf-8", 200, b"{}", "application/json 200 Invalid data: in body"),
        ("", 503, refusal(None, "full", "queue_full"), "none 503 queue_full None: full"),
        ("", 404, b'{"error": "gone"}', "none 404 sentence None: gone"),
        ("a/b", 500, b"oh", "a/b 500 b'oh'"),
        ("a/b", 500, b'["error"]', "a/b 500 b'[\"error\"]'"),
    ],
)
def test_an_answer_is_one_line(media: str, status: int, body: bytes, line: str) -> None:
    assert beyond.answer(media, status, body, "Invalid data:\n  in body") == line


WRONG_SOUND = "multipart/form-data 415 unsupported_media file: file is no audio, or broken"


def test_a_rule_excuses_its_own_refusal_and_no_other() -> None:
    operation = "POST /v1/audio/translations"
    assert beyond.rule(beyond.REFUSED, operation, WRONG_SOUND) is not None
    assert beyond.rule(beyond.ACCEPTED, operation, WRONG_SOUND) is None
    assert beyond.rule(beyond.REFUSED, "POST /v1/audio/speech", WRONG_SOUND) is None
    assert beyond.rule(beyond.REFUSED, operation, WRONG_SOUND.replace("415", "500")) is None
    assert beyond.rule(beyond.REFUSED, operation, WRONG_SOUND.replace(" file:", " model:")) is None


@each("one", beyond.RULES)
def test_a_rule_names_operations_that_are_there_and_excuses_no_failure_of_the_server(one: beyond.Rule) -> None:
    undeclared = one.operations.partition(" ")[0] if one.check == beyond.METHOD else None
    known = [f"{undeclared or entry.method} {entry.path}" for entry in ENTRIES]
    assert any(beyond.re.fullmatch(one.operations, name) for name in known)
    assert one.reason
    for status in (500, 503):
        assert not beyond.re.match(one.answers, f"application/json {status} internal_error model: an internal error")


def test_each_rule_has_a_reason_of_its_own() -> None:
    assert len({one.reason for one in beyond.RULES}) == len(beyond.RULES)
