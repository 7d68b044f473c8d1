"""The salt of a request: its key and its prompt_cache_key, on every route that chats."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as some
from starlette.requests import Request
from support.bodies import PNG, TALK
from support.cases import each
from support.counting import batch_of, prompt, talk
from support.server import Running

from edgeserve.api import cache_salt
from edgeserve.api.auth import KEY
from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.question import Prompt
from edgeserve.engines.llama.state_files import owner_of, salt_in
from edgeserve.engines.llama.state_index import client_of, scope_of
from edgeserve.errors import InvalidRequest
from edgeserve.messages import ChatRequest, EmbedRequest
from edgeserve.residency.work import Work


def salt(key: str = "", name: object = None) -> str:
    headers = [(b"authorization", key.encode("latin-1"))] if key else []
    asked = Prompt(Fields({"prompt_cache_key": name}), Limits())
    return cache_salt.salt(Request({"type": "http", "headers": headers}), asked.prompt_cache_key)


def of_client(address: str, group: str = "", **asked: str) -> str:
    """The client's part of a salt. ``group``: of the key that the server knows the client by."""
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in asked.items() if name != "name"]
    scope = {"type": "http", "headers": headers, "client": (address, 1), KEY: group}
    return cache_salt.salt(Request(scope), asked.get("name", "")).partition("/")[0]


def test_a_client_is_the_key_that_the_server_knows_it_by() -> None:
    """Names, further keys and addresses of its requests change nothing."""
    mine = {
        of_client("10.0.0.1", "mine", authorization="Bearer one"),
        of_client("10.0.0.1", "mine", authorization="Bearer one", name="a"),
        of_client("10.0.0.1", "mine", authorization="Bearer one", x_api_key="more"),
        of_client("10.0.0.2", "mine", name="b"),
    }
    assert len(mine) == 1
    assert of_client("10.0.0.1", "other", authorization="Bearer one") not in mine


def test_without_a_key_that_counts_a_client_is_its_network() -> None:
    """It may send any key and any name: each was a client with a share of its own."""
    here = {of_client("10.0.0.1", name=name) for name in "abc"}
    here |= {of_client("10.0.0.1", authorization=f"Bearer {name}") for name in "abc"}
    assert len(here) == 1
    assert of_client("10.0.0.2", name="a") not in here
    assert of_client("2001:db8::1", name="a") == of_client("2001:db8::2", name="a")
    assert of_client("127.0.0.1", name="a") == of_client("::1", name="a")


def plain(address: str) -> str:
    """The salt of a client without key and name."""
    return cache_salt.salt(Request({"type": "http", "headers": [], "client": (address, 1)}), "")


MINE, OTHER = plain("10.0.0.1"), plain("10.0.0.2")


def test_clients_without_a_key_share_prompts_and_have_shares_of_their_own() -> None:
    """They were one client in the slots and on the disk, wherever they were."""
    assert scope_of(MINE) == scope_of(OTHER) == scope_of("")
    assert len({client_of(MINE), client_of(OTHER), ""}) == 3
    assert plain("127.0.0.1") == plain("::1")
    assert client_of(MINE) == of_client("10.0.0.1", name="a") == of_client("10.0.0.1", authorization="Bearer one")
    mine, other = (client_of(salt_in(f"{owner_of(one)}-a.state")) for one in (MINE, OTHER))
    assert mine != other
    batch, _ = batch_of()
    assert talk(batch, prompt(1, 60), salt=MINE) == 0
    assert talk(batch, prompt(1, 60), salt=OTHER) == 59


def test_long_answers_of_a_client_without_a_key_stop_nobody_elses() -> None:
    batch, _ = batch_of(size=600, slots=4, limit=0)
    taken = [batch.take(prompt(seed, 166), MINE)[0] for seed in range(3)]
    small, _ = batch.take(prompt(99, 20), OTHER)
    stopped = 0
    for _ in range(60):
        batch.step()
        assert not small.preempted
        stopped += any(slot.preempted for slot in taken)
        for slot in (*taken, small):
            if slot.output is not None:
                batch.push(slot, 5)
    assert stopped


@each("limit", [0, 500])
def test_conversations_of_a_client_without_a_key_push_out_nobody_elses(limit: int) -> None:
    """The context has room for five, and the memory behind it for ``limit`` tokens; the client has twenty."""
    batch, _ = batch_of(size=600, slots=6, limit=limit)
    other = prompt(99, 100)
    talk(batch, other, salt=OTHER)
    for seed in range(20):
        talk(batch, prompt(seed, 100), salt=MINE)
    assert talk(batch, other, salt=OTHER) == 99


TEXTS = some.text(some.characters(min_codepoint=32, max_codepoint=255), max_size=12)


@given(some.lists(some.tuples(TEXTS, TEXTS), unique=True, max_size=8))
def test_every_pair_has_a_salt_of_its_own_that_names_neither(pairs: list[tuple[str, str]]) -> None:
    salts = [salt(*pair) for pair in pairs]
    assert len(set(salts)) == len(pairs)
    assert salts == [salt(*pair) for pair in pairs]
    for (key, name), made in zip(pairs, salts, strict=True):
        assert (scope_of(made) == "") is (key == name == "")
        assert len(made) in (17, 98)


@given(TEXTS.filter(bool), some.integers(0, 12), some.integers(0, 12))
def test_the_end_of_a_key_is_no_beginning_of_a_name(text: str, one: int, other: int) -> None:
    """Else a client could choose a name with which its shorter key finds the conversations of a longer one."""
    cuts = {(text[:at], text[at:]) for at in (one, other)}
    assert len({salt(*cut) for cut in cuts}) == len(cuts)


@each("name", [3, ["x"], {"a": 1}, True, "x" * 257])
def test_anything_but_a_short_text_is_refused_by_name(name: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        salt("Bearer key", name)
    assert caught.value.param == "prompt_cache_key"


ROUTES: dict[str, tuple[str, dict[str, Any], dict[str, bytes]]] = {
    "/v1/chat": ("llm", {"prompt": "hello"}, {}),
    "/v1/chat/stream": ("llm", {"messages": TALK}, {}),
    "/v1/chat/soap": ("llm", {"transcript": "hello"}, {}),
    "/v1/chat/summarize": ("llm", {"text": "hello"}, {}),
    "/v1/vision/analyze": ("vision", {}, {"image": PNG}),
    "/v1/vision/ocr": ("vision", {}, {"image": PNG}),
    "/v1/chat/completions": ("llm", {"messages": TALK}, {}),
    "/v1/completions": ("llm", {"prompt": ["hello", "again"]}, {}),
}


def ask(client: httpx.Client, path: str, key: str, name: object) -> httpx.Response:
    _, body, files = ROUTES[path]
    given = body if name is None else body | {"prompt_cache_key": name}
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if files:
        return client.post(path, data=given, files=files, headers=headers)
    return client.post(path, json=given, headers=headers)


@pytest.mark.parametrize("path", ROUTES)
def test_every_route_that_chats_is_salted(running: Running, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    job: Any = ROUTES[path][0]
    gate = running.pool.gates[job]
    submit = gate.submit

    def note(work: Work) -> None:
        assert isinstance(work.request, ChatRequest)
        seen.append(work.request.salt)
        submit(work)

    monkeypatch.setattr(gate, "submit", note)
    for key, name in (("", None), ("one", None), ("two", None), ("one", "a"), ("one", "b"), ("", "a")):
        seen.clear()
        assert ask(running.client, path, key, name).status_code == 200
        given = salt(f"Bearer {key}" if key else "", name).rpartition("/")[2]
        assert {one.rpartition("/")[2] for one in seen} == {given}


@each(("path", "field"), [("/v1/embeddings", "input"), ("/api/embed", "input"), ("/api/embeddings", "prompt")])
def test_texts_to_embed_take_the_share_of_their_client(running: Running, path: str, field: str) -> None:
    """They were nobody's."""
    gate, seen = running.pool.gates["llm"], list[str]()
    submit = gate.submit

    def note(work: Work) -> None:
        assert isinstance(work.request, EmbedRequest)
        seen.append(work.request.salt)
        submit(work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "submit", note)
        for key in ("", "one"):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            asked = running.client.post(path, json={"model": "llm", field: "hello"}, headers=headers)
            assert asked.status_code == 200
    assert [client_of(one) for one in seen] == [client_of(plain("127.0.0.1"))] * 2
    assert [scope_of(one) == "" for one in seen] == [True, False]


@pytest.mark.parametrize("path", ROUTES)
def test_a_bad_one_is_answered_400(client: httpx.Client, path: str) -> None:
    answer = ask(client, path, "", "x" * 257)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "prompt_cache_key"


def test_the_routes_describe_it(client: httpx.Client) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    fields = [one.get("properties", {}).get("prompt_cache_key") for one in schemas.values()]
    described = [one.get("oneOf", [one])[0] for one in fields if one]  # a form has no null beside it
    assert len(described) >= 5
    assert all(one["maxLength"] == 256 for one in described)
