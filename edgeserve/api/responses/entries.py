"""The routes of Responses."""

from __future__ import annotations

from edgeserve.api import sse
from edgeserve.api.entry import Entry, Link
from edgeserve.api.line import answering
from edgeserve.api.responses import stored
from edgeserve.api.responses.create import create, input_tokens
from edgeserve.api.responses.request import ResponseRequest, ResponseTokens
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
        answering(create, *CHAT),
        ResponseRequest,
        also=(sse.MEDIA_TYPE,),
        links=AFTER,
    ),
    Entry(
        "POST",
        "/v1/responses/input_tokens",
        "Tokens of the prompt of a response",
        answering(input_tokens, *CHAT),
        ResponseTokens,
    ),
    Entry("GET", ONE, "A stored response", stored.retrieve, query=stored.ResponseQuery),
    Entry("DELETE", ONE, "Forget a stored response", stored.delete),
    Entry("GET", ITEMS, "Items that a stored response was made of", stored.input_items, query=stored.ItemsQuery),
    Entry("POST", f"{ONE}/cancel", "Not supported: no response runs in the background", stored.cancel),
)
