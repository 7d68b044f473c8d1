"""A model's own chat template (Jinja, as Hugging Face defines it), rendered in a sandbox."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from typing import Any

from edgeserve.errors import InvalidRequest
from edgeserve.messages import ImagePart, Message, TextPart

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""For models that carry no template."""


class ChatTemplate:
    """Compiled once. ``begin`` and ``end`` are the texts of the model's own tokens for those."""

    def __init__(self, source: str | None, begin: str, end: str) -> None:
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().astimezone().strftime(form)
        self._template = environment.from_string(source or CHATML)
        self._tokens = {"bos_token": begin, "eos_token": end}

    def render(self, messages: Sequence[Message], marker: str = "") -> str:
        """The prompt that asks for the assistant's next turn; each picture becomes ``marker``.

        Raises InvalidRequest when the template refuses the conversation (an order of roles it does not know, say).
        """
        from jinja2 import TemplateError

        turns = [{"role": message.role, "content": _content(message, marker)} for message in messages]
        try:
            return str(self._template.render(messages=turns, add_generation_prompt=True, **self._tokens))
        except TemplateError as error:
            text = f"the model's chat template refuses these messages: {error}"
            raise InvalidRequest(text, param="messages") from error


def _content(message: Message, marker: str) -> str:
    parts: list[str] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            parts.append(part.text)
        elif isinstance(part, ImagePart):
            parts.append(marker)
    return "".join(parts)


def _refuse(text: str) -> Any:
    from jinja2 import TemplateError

    raise TemplateError(text)
