"""The form of an answer by the fields of several servers: OpenAI, llama-server, vLLM and Ollama."""

from __future__ import annotations

from typing import Any

from edgeserve import strict_json
from edgeserve.api.fields import Fields, kind
from edgeserve.api.json_body import check_size
from edgeserve.api.json_schema import MAX_CHARS, JsonSchema
from edgeserve.api.limits import Limits
from edgeserve.api.openai.accepted import Unavailable
from edgeserve.api.openai.response_format import FREE, FormatField, ResponseFormat
from edgeserve.api.schema import Field, Object, Record
from edgeserve.api.values import Flag, Text

MAX_CHOICES = 1000
GRAMMAR = "a grammar in llama.cpp's notation (GBNF), whose rule root is the answer"
PATTERN = "a regular expression, which the whole answer matches"


class Choices(Field[tuple[str, ...]]):
    """Texts of which the answer is one."""

    def __init__(self) -> None:
        super().__init__(f"texts of which the answer is one; at most {MAX_CHARS:,} characters together", ())

    def read(self, fields: Fields, limits: Limits) -> tuple[str, ...]:
        given = fields.raw(self.name)
        if not isinstance(given, list) or not given or not all(isinstance(one, str) and one for one in given):
            raise fields.error(self.name, "must be a list of at least one text, none of them empty")
        if len(given) > MAX_CHOICES:
            raise fields.error(self.name, f"has {len(given)} entries; the limit is {MAX_CHOICES}")
        if (size := sum(map(len, given))) > MAX_CHARS:
            raise fields.error(self.name, f"has {size} characters; the limit is {MAX_CHARS}")
        return tuple(given)

    def schema(self, limits: Limits) -> dict[str, Any]:
        text = {"type": "string", "minLength": 1}
        return {"type": "array", "items": text, "minItems": 1, "maxItems": MAX_CHOICES}


class SchemaOrText(JsonSchema):
    """A JSON schema, or its text, as vLLM takes them."""

    def read(self, fields: Fields, limits: Limits) -> str:
        given = fields.raw(self.name)
        if not isinstance(given, str):
            return super().read(fields, limits)
        if not given:
            return ""
        return super().read(fields.inner({self.name: self._value(fields, given)}, fields.full("")), limits)

    def _value(self, fields: Fields, text: str) -> dict[str, Any]:
        """The object in a text. Raises InvalidRequest."""
        if len(text) > MAX_CHARS:
            raise fields.error(self.name, f"has {len(text)} characters; the limit of a schema is {MAX_CHARS}")
        check_size(text.encode(errors="replace"), fields.full(self.name), fields.full(self.name))
        try:
            value = strict_json.loads(text)
        except ValueError as error:
            raise fields.error(self.name, f"must be a JSON schema or the text of one: {error}") from None
        if not isinstance(value, dict):
            raise fields.error(self.name, f"must be a JSON schema or the text of one, not {kind(value)}")
        return value

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [{"type": "object"}, {"type": "string", "contentMediaType": "application/json"}]}


class Format(JsonSchema):
    """Ollama's ``format``: "json", or a JSON schema."""

    def read(self, fields: Fields, limits: Limits) -> str:
        if fields.raw(self.name) in ("", "json"):
            return str(fields.raw(self.name))
        return super().read(fields, limits)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [{"type": "string", "enum": ["", "json"]}, {"type": "object"}]}


class StructuredOutputs(Record):
    """vLLM's ``structured_outputs``."""

    json = SchemaOrText("holds the answer to this JSON schema")
    regex = Text(PATTERN, limit=MAX_CHARS)
    choice = Choices()
    grammar = Text(GRAMMAR, limit=MAX_CHARS)
    json_object = Flag("the answer is one JSON object")
    structural_tag = Unavailable("this server has no structural tags")


class Shaped(Record):
    """Fields that say the form of the answer. At most one of them may ask for another form than free text."""

    response_format = FormatField()
    json_schema = JsonSchema("llama-server: holds the answer to this schema")
    grammar = Text(f"llama-server: {GRAMMAR}", limit=MAX_CHARS)
    format = Format('Ollama: "json", or a schema')
    guided_json = SchemaOrText("vLLM: holds the answer to this schema")
    guided_regex = Text(f"vLLM: {PATTERN}", limit=MAX_CHARS)
    guided_choice = Choices()
    guided_grammar = Text(f"vLLM: {GRAMMAR}", limit=MAX_CHARS)
    structured_outputs = Object("vLLM: the form of the answer", StructuredOutputs)

    def form(self) -> ResponseFormat:
        """The form of the answer. Raises InvalidRequest for two forms."""
        return self._named_form()[1]

    def names(self) -> dict[str, str]:
        """The field that says the form, by the names that an engine's errors have for it."""
        name, form = self._named_form()
        return {"grammar" if form.grammar is not None else "response_format": name}

    def _named_form(self) -> tuple[str, ResponseFormat]:
        inside = self.structured_outputs
        wanted = {
            "response_format": self.response_format,
            "json_schema": _by_schema(self.json_schema),
            "grammar": ResponseFormat(grammar=self.grammar or None),
            "format": ResponseFormat(json_object=True) if self.format == "json" else _by_schema(self.format),
            "guided_json": _by_schema(self.guided_json),
            "guided_regex": ResponseFormat(pattern=self.guided_regex or None),
            "guided_choice": ResponseFormat(choices=self.guided_choice),
            "guided_grammar": ResponseFormat(grammar=self.guided_grammar or None),
        }
        if inside is not None:
            wanted |= {
                "structured_outputs.json": _by_schema(inside.json),
                "structured_outputs.regex": ResponseFormat(pattern=inside.regex or None),
                "structured_outputs.choice": ResponseFormat(choices=inside.choice),
                "structured_outputs.grammar": ResponseFormat(grammar=inside.grammar or None),
                "structured_outputs.json_object": ResponseFormat(json_object=inside.json_object),
            }
        given = {name: form for name, form in wanted.items() if form != FREE}
        if len(given) > 1:
            first, second = list(given)[:2]
            raise self.error(second, f"cannot stand beside {first}: both say the form of the answer")
        return next(iter(given.items()), ("response_format", FREE))


def _by_schema(text: str) -> ResponseFormat:
    return ResponseFormat(json_schema=text or None)
