"""Stored responses: continued, read, listed, deleted, and kept from others."""

from __future__ import annotations

import contextlib
from typing import Any

import httpx
import pytest
from openai import NotFoundError, OpenAI
from support.cases import each
from support.raw import dialled, read_all
from support.server import Running, fake_pool, serving, until

from edgeserve.protocols.bounded import WRITE_BYTES


def respond(client: httpx.Client, given: Any, headers: Any = None, **body: Any) -> Any:
    answer = client.post("/v1/responses", json={"input": given, **body}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_conversation_goes_on_from_a_stored_response(client: httpx.Client) -> None:
    first = respond(client, "one two", instructions="Be brief please.")
    assert first["usage"]["input_tokens"] == 5
    second = respond(client, "three", previous_response_id=first["id"])
    assert second["usage"]["input_tokens"] == 5  # one two, one two, three: instructions are not carried over
    third = respond(client, "four", previous_response_id=second["id"], instructions="Hm.")
    assert third["usage"]["input_tokens"] == 8
    again = respond(client, "five", previous_response_id=first["id"])
    assert again["usage"]["input_tokens"] == 5


def test_a_stored_response_is_read_and_deleted(client: httpx.Client) -> None:
    response = respond(client, "one two")
    path = f"/v1/responses/{response['id']}"
    assert client.get(path).json() == response
    assert client.delete(path).json() == {"id": response["id"], "object": "response", "deleted": True}
    for answer in (
        client.get(path),
        client.delete(path),
        client.get(f"{path}/input_items"),
        client.post(f"{path}/cancel"),
    ):
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "not_found"
    gone = client.post("/v1/responses", json={"input": "a", "previous_response_id": response["id"]})
    assert gone.json()["error"]["code"] == "previous_response_not_found"


def test_a_streamed_response_is_stored_too(client: httpx.Client) -> None:
    text = client.post("/v1/responses", json={"input": "one two", "stream": True}).text
    name = text.partition('"id":"')[2].partition('"')[0]
    assert client.get(f"/v1/responses/{name}").json()["output"][0]["content"][0]["text"] == "one two"


def test_a_response_that_is_not_to_be_stored_is_not(client: httpx.Client) -> None:
    response = respond(client, "one two", store=False)
    assert response["store"] is False
    assert client.get(f"/v1/responses/{response['id']}").status_code == 404


def test_a_response_beyond_the_store_says_that_it_is_not_stored(client: httpx.Client) -> None:
    said = [{"role": "system", "content": "x" * (9 << 20)}, {"role": "user", "content": "a"}]
    assert respond(client, said)["store"] is False


def test_cancel_is_for_the_background_alone(client: httpx.Client) -> None:
    response = respond(client, "one")
    answer = client.post(f"/v1/responses/{response['id']}/cancel")
    assert answer.status_code == 400
    assert "Cannot cancel a synchronous response" in answer.json()["error"]["message"]


TOOL = {"type": "function", "name": "look", "description": "x" * 900_000, "parameters": {"type": "object"}}
THOUGHTS = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "x" * 1_000_000}]}
LONG = [*[THOUGHTS] * 4, {"role": "user", "content": "hi"}]


@each("what", ["/input_items?limit=100", ""])
def test_what_is_read_slowly_counts_until_it_is_read(what: str) -> None:
    """Sixty clients that did not read 7 MB each took 393 MB, and nobody counted them."""
    with serving(fake_pool(["llm"])) as running, contextlib.ExitStack() as links:
        path = f"/v1/responses/{respond(running.client, LONG, tools=[TOOL], tool_choice='none')['id']}{what}"
        whole = running.client.get(path).content
        until(lambda: running.pool.deliveries.held == 0)
        slow = []
        for _ in range(3):
            slow.append(links.enter_context(dialled(running, receive_bytes=4096)))
            slow[-1].sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        until(lambda: running.pool.deliveries.held == 3 * len(whole))
        open_now = list(running.server.server_state.connections)
        until(lambda: sum(one.flow.write_paused for one in open_now) == 3)
        assert all(one.transport.get_write_buffer_size() <= 2 * WRITE_BYTES + 1024 for one in open_now)
        assert read_all(slow.pop()).endswith(whole)
        until(lambda: running.pool.deliveries.held == 2 * len(whole))
        running.pool.deliveries.limit = 5 * len(whole)
        refused = running.client.get(path)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "queue_full")
        links.close()
        until(lambda: running.pool.deliveries.held == 0)
        assert running.client.get(path).content == whole


def test_the_items_of_a_response_are_listed_in_pages(client: httpx.Client) -> None:
    first = respond(
        client, [{"role": "user", "content": "one"}, {"role": "developer", "content": "two", "id": "msg_mine"}]
    )
    second = respond(client, "three", previous_response_id=first["id"])
    path = f"/v1/responses/{second['id']}/input_items"
    listed = client.get(path, params={"order": "asc"}).json()
    assert [one["role"] for one in listed["data"]] == ["user", "developer", "assistant", "user"]
    assert (listed["object"], listed["has_more"]) == ("list", False)
    assert listed["data"][1]["id"] == "msg_mine"
    assert listed["data"][0]["content"] == [{"type": "input_text", "text": "one"}]
    assert (listed["first_id"], listed["last_id"]) == (listed["data"][0]["id"], listed["data"][-1]["id"])
    page = client.get(path, params={"limit": 3}).json()
    assert page["has_more"] is True
    assert [one["role"] for one in page["data"]] == ["user", "assistant", "developer"]
    rest = client.get(path, params={"after": page["last_id"]}).json()
    assert [one["id"] for one in rest["data"]] == [listed["first_id"]]
    assert client.get(path, params={"after": "msg_none"}).json()["error"]["param"] == "after"


@pytest.mark.slow
def test_openais_client_reads_and_lists(running: Running) -> None:
    with OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0) as ai:
        made = ai.responses.create(model="llm", input="one two")
        name = ai.responses.create(model="llm", input="three", previous_response_id=made.id).id
        pages = ai.responses.input_items.list(name, limit=1, include=["reasoning.encrypted_content"])
        assert [one.type for one in pages] == ["message"] * 3
        assert ai.responses.retrieve(name, include=["reasoning.encrypted_content"]).output_text == "three"
        ai.responses.delete(name)
        with pytest.raises(NotFoundError):
            ai.responses.retrieve(name)


def test_an_item_is_referred_to_by_its_id(client: httpx.Client) -> None:
    first = respond(client, "one two")
    kept = first["output"][0]["id"]
    given = [{"type": "item_reference", "id": kept}, {"id": kept}, {"role": "user", "content": "three"}]
    assert respond(client, given)["usage"]["input_tokens"] == 5
    unknown = client.post("/v1/responses", json={"input": [{"type": "item_reference", "id": "msg_none"}]})
    assert unknown.status_code == 404
    assert unknown.json()["error"]["param"] == "input[0]"


@pytest.mark.parametrize("stream", ["1", "true"])
def test_a_stored_response_is_not_streamed(client: httpx.Client, stream: str) -> None:
    response = respond(client, "one")
    answer = client.get(f"/v1/responses/{response['id']}", params={"stream": stream})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "stream"


def test_another_key_finds_nothing(client: httpx.Client) -> None:
    mine, other = {"Authorization": "Bearer mine"}, {"Authorization": "Bearer other"}
    response = respond(client, "a secret", mine)
    path, kept = f"/v1/responses/{response['id']}", response["output"][0]["id"]
    assert client.get(path, headers=mine).status_code == 200
    for headers in (other, {}):
        assert client.get(path, headers=headers).status_code == 404
        assert client.delete(path, headers=headers).status_code == 404
        assert client.get(f"{path}/input_items", headers=headers).status_code == 404
        given = {"input": "a", "previous_response_id": response["id"]}
        assert client.post("/v1/responses", json=given, headers=headers).status_code == 400
        reference = {"input": [{"type": "item_reference", "id": kept}]}
        assert client.post("/v1/responses", json=reference, headers=headers).status_code == 404
    assert client.get(path, headers=mine).status_code == 200
