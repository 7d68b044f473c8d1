"""The parts of a chat request: messages, tools and sampling. Import them from ``messages``."""

from __future__ import annotations

import contextlib
from dataclasses import field
from typing import Literal

from edgeserve.dataclass import dataclass

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text between pictures."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture, already checked: the bytes of a file, or with a ``size`` its pixels.

    - ``param``: the field of the request, for errors of a decoder
    - ``pixels``: width times height
    - ``size``: width and height; the data are then rows of RGB, three bytes a pixel
    """

    data: bytes | memoryview = field(repr=False)
    param: str = field(default="image", repr=False, compare=False)
    pixels: int = field(default=0, repr=False, compare=False)
    size: tuple[int, int] | None = None

    def release(self) -> None:
        """Give shared memory back, since nobody reads the data any more; ``bytes`` stay. Idempotent."""
        if isinstance(self.data, memoryview):
            with contextlib.suppress(BufferError):  # cancelled work still reads it, and gives it back at its end
                self.data.release()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function that the model wants called. ``arguments`` is the text of a JSON object.

    ``id`` names the call to the client, and is empty for a call without a name yet.
    """

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. An assistant's message may hold calls; a tool's message answers the call ``tool_call_id``.

    ``reasoning``: the thoughts before an assistant's message. The chat template keeps them or leaves them out.
    """

    role: Role
    parts: tuple[TextPart | ImagePart, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    reasoning: str = ""

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def size(self) -> int:
        """Characters of the texts, the thoughts and the arguments of calls."""
        return len(self.text) + len(self.reasoning) + sum(len(call.arguments) for call in self.tool_calls)

    @property
    def images(self) -> tuple[ImagePart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ImagePart))


@dataclass(frozen=True, slots=True)
class Sampling:
    """Parameters of sampling. None stands for the model's own default (``ModelSpec.options``).

    - ``temperature``: 0 is greedy
    - ``seed``: without one the engine draws one
    - ``logit_bias``: token ids with numbers to add to their logits, -100 to 100
    - ``top_k``: 0 considers all tokens
    - ``repeat_last_n``: latest tokens of the answer that penalties apply to; 0 none, -1 all
    - ``mirostat``: 1 or 2 take the place of the filters (top_k, top_p, min_p, typical_p, xtc, top_n_sigma); 0 is off
    - ``dynatemp_range``: the temperature varies by so much in both directions, by the entropy of the next token
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repeat_penalty: float | None = None
    seed: int | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    typical_p: float | None = None
    top_n_sigma: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    repeat_last_n: int | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call. ``parameters`` is the JSON schema of the arguments, as text.

    ``strict``: a keyword that a grammar cannot express is an error, and is loosened otherwise.
    """

    name: str
    description: str = ""
    parameters: str = '{"type":"object","properties":{}}'
    strict: bool = False

    @property
    def size(self) -> int:
        """Characters that a prompt has for it."""
        return len(self.description) + len(self.parameters)


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The choice among tools.

    - ``required``: the answer must be a call
    - ``name``: the only tool that the answer may call
    - ``parallel``: the answer may be several calls
    """

    required: bool = False
    name: str | None = None
    parallel: bool = True
