"""Prepares a request for the batch: its prompt as tokens, its grammar as GBNF. Any thread, without slot or context."""

from __future__ import annotations

import array
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama.filling import filling
from edgeserve.engines.llama.model import MappedModel
from edgeserve.engines.llama.tokenizer import MOST_TEXT, TooLong
from edgeserve.engines.shortening import shortened
from edgeserve.engines.thinking import opened_by
from edgeserve.engines.whole_texts import at_once, long_input, read_inputs
from edgeserve.errors import ContextOverflow, InvalidRequest
from edgeserve.messages import ChatRequest, EmbedRequest, ImagePart

if TYPE_CHECKING:
    from edgeserve.engines.llama.grammar import Written
    from edgeserve.engines.llama.template import ChatTemplate
    from edgeserve.engines.llama.tools import CallForm

EARLY_FACTOR = 4
"""A conversation longer than this times the longest text of the context is refused before its template is rendered. A
template may leave out some of a shorter one."""

COUNTED = 1 << 18
"""Tokens of a prompt at most that a client may have counted, about a second of work."""

COUNTED_TEXT = 1 << 20
"""Characters of such a prompt, about as many. A longer one is counted as far as the context holds it."""

MARKER_TOKENS = 64
"""Tokens of a picture's marker at most. They do not count: the picture takes its place."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared request.

    tokens  tokens of a chat without pictures
    text    prompt of a chat with pictures
    images  its pictures
    thinks  the prompt ends in the tag that opens a model's thoughts
    rules   grammar of the answer; None for free text
    inputs  tokens of each input of an embedding
    endings   tokens that may not end the answer, or not yet
    loosened  keywords of schemas that the grammar leaves out
    """

    tokens: Sequence[int] = ()
    text: str = ""
    images: tuple[ImagePart, ...] = ()
    thinks: bool = False
    rules: Written | None = None
    inputs: Sequence[Sequence[int]] = ()
    endings: Sequence[int] = ()
    loosened: tuple[str, ...] = ()

    @property
    def prompt_tokens(self) -> int:
        """As ``Prompted.prompt_tokens``: pictures are not counted here."""
        return len(self.tokens)

    @property
    def own(self) -> bool:
        """Whether the rules are a grammar that the client wrote."""
        if self.rules is None:
            return False
        from edgeserve.engines.grammar.gbnf import Gbnf  # a worker is ready before it needs this

        return isinstance(self.rules, Gbnf)


def prepare_chat(
    model: MappedModel,
    template: Callable[[], ChatTemplate],
    request: ChatRequest,
    render: Callable[[ChatRequest], str],
    limit: int,
) -> Prepared:
    """Prepare a chat for a context of ``limit`` tokens. A raw prompt needs no template, nor does one
    with a gap.

    Raises InvalidRequest, and ContextOverflow for a prompt that leaves no room for an answer, or is too long to count.
    """
    prepared = shortened(request, functools.partial(_prompt, model, render), limit)
    # Last, and once: a grammar may take longer than a prompt, and a search for the turns that fit reads many of these.
    form = template().form if request.suffix is None and request.prompt is None else None
    return dataclasses.replace(prepared, **_held(model, request, form, thinks=prepared.thinks))


def _prompt(model: MappedModel, render: Callable[[ChatRequest], str], request: ChatRequest, limit: int) -> Prepared:
    """The prompt without a grammar. Raises as ``prepare_chat`` does."""
    if request.suffix is not None:
        return Prepared(filling(model, request, limit))
    most = _longest_counted(request, limit, _length(request))
    with _fitting(limit):
        if request.prompt is not None:
            prepared = Prepared(model.read(request.prompt, param="prompt", most=most))
        else:
            model.tokenizer.check_size(_length(request), most, times=EARLY_FACTOR)
            text = render(request)
            thinks = opened_by(text)
            if request.images:
                model.tokenizer.check_size(len(text), limit - 1)
                model.tokenizer.check_pieces(text, limit - 1 + MARKER_TOKENS * len(request.images))
                model.tokenizer.check_runs(text)
                return Prepared(text=text, images=request.images, thinks=thinks)
            most = min(most, _longest_counted(request, limit, len(text)))
            prepared = Prepared(model.tokenize(text, add_special=False, most=most), thinks=thinks)
        if request.count != "only" and len(prepared.tokens) >= limit:
            raise TooLong(len(prepared.tokens), exact=True)
    if not prepared.tokens:
        raise InvalidRequest("the prompt is empty", param="prompt")
    return prepared


def _held(
    model: MappedModel, request: ChatRequest, form: CallForm | None = None, *, thinks: bool = False
) -> dict[str, Any]:
    """The fields of ``Prepared`` that hold the answer. Raises InvalidRequest."""
    from edgeserve.engines.llama.grammar import grammar  # a worker is ready before it needs this
    from edgeserve.engines.llama.tools import CallForm

    made = grammar(request, form or CallForm(), thinks=thinks)
    endings = (*model.endings(), *request.stop_tokens) if request.ignore_eos or request.min_tokens else ()
    held: dict[str, Any] = {"endings": endings}
    return held if made is None else held | {"rules": made.rules, "loosened": made.loosened}


def prepare_inputs(model: MappedModel, request: EmbedRequest, limit: int) -> Prepared:
    """Tokens of all inputs, at most ``limit`` each: a longer one is cut, or raises ContextOverflow.

    Raises InvalidRequest for an empty one, and for more than MOST_TEXT characters of all that were read.
    """
    left = MOST_TEXT

    def read(number: int) -> Sequence[int]:
        nonlocal left
        one = request.inputs[number]
        try:
            tokens: Sequence[int] = model.read(one, param="input", most=limit)
            left -= len(one)
        except TooLong as error:
            if not request.cut:
                raise long_input(number, str(error), limit) from None
            tokens = model.tokenizer.cut(one, limit) if isinstance(one, str) else one[:limit]
            left -= sum(len(model.piece(token, special=True)) for token in tokens)
        if left < 0:
            text = f"the first {number + 1} inputs have more than {MOST_TEXT:,} characters: send fewer"
            raise InvalidRequest(text, param="input")
        return array.array("i", tokens)  # 4 bytes each: there may be 2,048 inputs

    return Prepared(inputs=at_once(read_inputs(request.inputs, read)))


def check_inputs(inputs: Sequence[Sequence[int]], limit: int) -> None:
    """Check prepared inputs again: the context may have become smaller. Raises ContextOverflow."""
    for number, tokens in enumerate(inputs):
        if len(tokens) > limit:
            raise long_input(number, str(len(tokens)), limit)


@contextmanager
def _fitting(limit: int) -> Iterator[None]:
    """Raise ContextOverflow instead of TooLong."""
    try:
        yield
    except TooLong as error:
        raise overflow(error, limit) from None


def overflow(size: TooLong, limit: int) -> ContextOverflow:
    """The error for a prompt of this size."""
    return ContextOverflow(
        f"the prompt is {size} tokens long; the context holds {limit} and needs one for the answer: shorten the "
        "prompt, or raise context in models.toml",
        param="messages",
        figures=(size.count, limit - 1),
    )


def _longest_counted(request: ChatRequest, limit: int, characters: int) -> int:
    """Tokens up to which a prompt is tokenised: beyond the context for a client that wants their number."""
    if not request.count or characters > COUNTED_TEXT:
        return limit - 1
    return max(COUNTED, limit) if request.count == "only" else EARLY_FACTOR * limit


def _length(request: ChatRequest) -> int:
    """Characters of a raw prompt, or of a conversation and its tools."""
    if request.prompt is not None:
        return len(request.prompt) if isinstance(request.prompt, str) else 0
    said = sum(len(one.text) + sum(len(call.arguments) for call in one.tool_calls) for one in request.messages)
    return said + sum(tool.size for tool in request.tools)
