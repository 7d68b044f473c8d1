"""The routes of Responses."""

from __future__ import annotations

from edgeserve.api import sse
from edgeserve.api.entry import Entry, Link
from edgeserve.jobs import CHAT

ONE = "/v1/responses/{response}"
ITEMS = f"{ONE}/input_items"
AFTER = (
    Link("retrieve", "GET", ONE, "/id", "path", "response"),
    Link("items", "GET", ITEMS, "/id", "path", "response"),
    Link("delete", "DELETE", ONE, "/id", "path", "response"),
)
RESPONSES = (
    Entry(
        "POST",
        "/v1/responses",
        "OpenAI's Responses",
        "edgeserve.api.responses.create:create",
        "edgeserve.api.responses.request:ResponseRequest",
        jobs=CHAT,
        also=(sse.MEDIA_TYPE,),
        links=AFTER,
    ),
    Entry(
        "POST",
        "/v1/responses/input_tokens",
        "Tokens of the prompt of a response",
        "edgeserve.api.responses.create:input_tokens",
        "edgeserve.api.responses.request:ResponseTokens",
        jobs=CHAT,
    ),
    Entry("GET", ONE, "A stored response", "edgeserve.api.responses.stored:retrieve", asked="ResponseQuery"),
    Entry("DELETE", ONE, "Forget a stored response", "edgeserve.api.responses.stored:delete"),
    Entry(
        "GET",
        ITEMS,
        "Items that a stored response was made of",
        "edgeserve.api.responses.stored:input_items",
        asked="ItemsQuery",
    ),
    Entry(
        "POST",
        f"{ONE}/cancel",
        "Not supported: no response runs in the background",
        "edgeserve.api.responses.stored:cancel",
    ),
)
