"""llama-server's infill: the text between two others, for editors (tools/server/README.md)."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.json_body import read_json
from edgeserve.api.limits import Limits
from edgeserve.api.line import Call
from edgeserve.api.llama_server.completion import Continued
from edgeserve.api.schema import Field, Objects, Record
from edgeserve.api.values import Ignored, Text

MAX_FILES = 256
NAMES = {"prompt": "input_prefix", "suffix": "input_suffix"}
"""This route's names of fields, for errors of engines."""


class Beside(Field[str]):
    """A text beside the gap. It may be empty, but not left out."""

    def __init__(self, words: str) -> None:
        super().__init__(words, "", required=True)

    def read(self, fields: Fields, limits: Limits) -> str:
        if not fields.has(self.name):
            raise fields.error(self.name, "is required; it may be empty")
        return fields.text(self.name)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "string"}


class OtherFile(Record):
    """Another file of the repository, or a part of one."""

    filename = Text("its name; left out: tmp", limit=NAME_CHARS)
    text = Beside("its text")


class Infilling(Continued):
    """The body of POST /infill."""

    input_prefix = Beside("the text before the gap")
    input_suffix = Beside("the text behind the gap")
    input_extra = Objects("other files, the most important last", OtherFile, empty=True, limit=MAX_FILES)
    prompt = Text("text after input_prefix, which the answer goes on from")
    n_indent = Ignored()
    samplers = Ignored()
    t_max_prompt_ms = Ignored()
    t_max_predict_ms = Ignored()


async def infill(request: Request) -> Call:
    asked = await read_json(request, Infilling)
    files = tuple((one.filename or "tmp", one.text) for one in asked.input_extra)
    before = asked.input_prefix + asked.prompt
    return asked.call(request, NAMES, prompt=before, suffix=asked.input_suffix, snippets=files)
