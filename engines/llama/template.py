"""A model's own chat template (Jinja, as Hugging Face defines it), rendered in a sandbox."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from edgeserve.engines.llama.template_budget import STEPS, Budget, OverBudget, characters, check_indent
from edgeserve.engines.llama.template_environment import environment
from edgeserve.engines.llama.tools import CallForm, arguments, as_functions, described, form_of
from edgeserve.errors import InvalidRequest
from edgeserve.messages import ImagePart, Message, TextPart, Tool

log = logging.getLogger("edgeserve.llama")

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""For models without a template."""


class ChatTemplate:
    """A compiled template. ``begin`` and ``end``: texts of the model's BOS and EOS tokens."""

    def __init__(self, source: str | None, begin: str, end: str) -> None:
        import datetime  # as Jinja: with the first chat

        from jinja2 import meta
        from jinja2.ext import loopcontrols

        self._environment = sandbox = environment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        sandbox.filters["tojson"] = _to_json
        sandbox.globals["raise_exception"] = _raise_exception
        sandbox.globals["strftime_now"] = lambda form: datetime.datetime.now().astimezone().strftime(form)
        source = source or CHATML
        try:
            self._template = sandbox.from_string(source)
            self._knows_tools = "tools" in meta.find_undeclared_variables(sandbox.parse(source))
        except Exception as error:  # Jinja's own errors, and those of Python's compiler: "'break' outside loop"
            text = f"the model's chat template cannot be used: {error}; ask /v1/completions, which needs none"
            raise InvalidRequest(text, param="messages") from error
        self.form = form_of(source) if self._knows_tools else CallForm()
        self._tokens = {"bos_token": begin, "eos_token": end}

    def render(
        self,
        messages: Sequence[Message],
        marker: str = "",
        tools: Sequence[Tool] = (),
        *,
        several: bool = True,
        steps: int = STEPS,
        variables: Mapping[str, Any] = MappingProxyType({}),
        generation_prompt: bool = True,
    ) -> str:
        """The prompt for the assistant's next turn; each picture becomes ``marker``.

        For a template without ``tools``, the system message describes them, and allows ``several`` calls or one.

        ``variables``: further ones for the template. ``generation_prompt``: the prompt ends in the beginning of the
        assistant's turn.

        Raises InvalidRequest when the template refuses the conversation (such as an order of roles), fails on it, or
        takes more than its budget.
        """
        from jinja2 import TemplateError

        try:
            given = {**variables, "add_generation_prompt": generation_prompt}
            return self._render(messages, marker, tools, given, several=several, steps=steps)
        except TemplateError as error:
            raise _refused(f"refuses these messages: {error}") from error
        except OverBudget as error:
            raise _refused(f"cannot render these messages: {error}; send fewer or shorter ones") from error
        except Exception as error:  # any failure of a template fails this request only
            log.debug("a chat template failed", exc_info=True)
            raise _refused(f"fails on these messages: {type(error).__name__}: {str(error)[:200]}") from error

    def _render(
        self,
        messages: Sequence[Message],
        marker: str,
        tools: Sequence[Tool],
        given: Mapping[str, Any],
        *,
        several: bool,
        steps: int,
    ) -> str:
        if not self._knows_tools:
            messages, tools = described(messages, tools, several=several), ()
        names = {call.id: call.name for message in messages for call in message.tool_calls}
        turns = [_turn(message, marker, names) for message in messages]
        functions = as_functions(tools) or None
        budget = Budget(sum(characters((turns, functions))), steps=steps)
        variables = {**given, "messages": turns, "tools": functions, **self._tokens}
        return str(self._environment.render(self._template, variables, budget))


def _refused(why: str) -> InvalidRequest:
    return InvalidRequest(f"the model's chat template {why}", param="messages")


def _turn(message: Message, marker: str, names: Mapping[str, str]) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": _content(message, marker)}
    if message.role == "tool":
        turn |= {"tool_call_id": message.tool_call_id, "name": names.get(message.tool_call_id, "")}
    if message.reasoning:
        turn["reasoning_content"] = message.reasoning
    if message.tool_calls:
        turn["tool_calls"] = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": arguments(one)}}
            for one in message.tool_calls
        ]
    return turn


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **settings: Any) -> str:
    """The filter ``tojson``, with the settings that Hugging Face's templates may pass."""
    check_indent(indent)
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **settings)


def _content(message: Message, marker: str) -> str:
    parts: list[str] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            parts.append(part.text)
        elif isinstance(part, ImagePart):
            parts.append(marker)
    return "".join(parts)


def _raise_exception(text: str) -> Any:
    """The function that templates call to refuse a conversation."""
    from jinja2 import TemplateError

    raise TemplateError(text)
