"""A query and its documents as the tokens of a ranking model's training (llama.cpp tools/server/server-common.cpp).

- A file with a template named "rerank" (Qwen3-Reranker) has the query and the document put into it.
- Other models get ``[BOS] query [EOS] [SEP] document [EOS]``, each token only if the vocabulary asks for it.

Texts of a client never become control tokens, which llama-server allows in a template. BERT's pairs end with [SEP], as
in its training; llama-server leaves this token out.
"""

from __future__ import annotations

import array
from collections.abc import Sequence

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama.model import MappedModel
from edgeserve.engines.llama.runtime import llama
from edgeserve.engines.llama.tokenizer import TooLong
from edgeserve.engines.whole_texts import Room, long_query
from edgeserve.errors import EngineFailure

QUERY, DOCUMENT = "{query}", "{document}"


@dataclass(frozen=True, slots=True)
class Frame:
    """All that stands around a document: tokens, the text before and after the document in its own run, tokens."""

    head: list[int]
    before: str
    after: str
    tail: list[int]


@dataclass(frozen=True, slots=True)
class Pair:
    """Tokens of a query with one document. ``cut``: the document continues."""

    tokens: Sequence[int]
    cut: bool


class Pairs:
    """The pairs of one query: at most ``most`` tokens each, and ``most_document`` tokens of the document.

    ``limit``: tokens of a document at most. Raises ContextOverflow for a query that leaves no room.
    """

    def __init__(self, model: MappedModel, query: str, most: int, most_document: int | None = None) -> None:
        self._model, self._most = model, most
        template = _template(model)
        try:
            self._frame = _filled(model, template, query, most) if template else _plain(model, query, most)
            self._before = self._read(self._frame.before)
        except TooLong as error:
            raise long_query(str(error), most) from None
        self._after = self._read(self._frame.after)
        beside = len(self._frame.head) + len(self._before) + len(self._after) + len(self._frame.tail)
        self._room = Room(most, beside, most_document)
        self.limit = self._room.limit

    def pair(self, document: str) -> Pair:
        """The tokens of the query with a document. Raises ContextOverflow, InvalidRequest."""
        frame, known = self._frame, len(self._before)
        tokens, cut = self._model.tokenizer.beginning(frame.before + document, known + self.limit)
        if cut:
            self._room.check_cut()
            tokens += self._after
        elif frame.after:
            tokens = self._read(frame.before + document + frame.after)
        whole = array.array("i", [*frame.head, *tokens, *frame.tail])  # 4 bytes each: there may be 300,000
        return Pair(whole, cut)

    def _read(self, text: str) -> list[int]:
        return _read(self._model, text, self._most)


def _read(model: MappedModel, text: str, most: int) -> list[int]:
    return model.tokenizer.tokenize(text, add_special=False, parse_special=False, most=most) if text else []


def _plain(model: MappedModel, query: str, most: int) -> Frame:
    """The frame of a model without a template."""
    runtime, vocabulary = llama(), model.vocabulary
    separators = [runtime.llama_vocab_sep(vocabulary)] if runtime.llama_vocab_get_add_sep(vocabulary) else []
    end = runtime.llama_vocab_eos(vocabulary)
    ends = [end if end >= 0 else runtime.llama_vocab_sep(vocabulary)]
    ends = ends if runtime.llama_vocab_get_add_eos(vocabulary) else []
    begin = [runtime.llama_vocab_bos(vocabulary)] if runtime.llama_vocab_get_add_bos(vocabulary) else []
    head = [*begin, *_read(model, query, most), *ends, *separators]
    return Frame(head, "", "", ends or separators)


def _template(model: MappedModel) -> str:
    """The template of pairs; empty for a model without one."""
    source = llama().llama_model_chat_template(model.handle, b"rerank")
    return source.decode() if source else ""


def _filled(model: MappedModel, template: str, query: str, most: int) -> Frame:
    """The frame of a template, in which the control tokens are the template's own. Raises EngineFailure."""
    runs = _runs(model, template)
    places = [at for at, run in enumerate(runs) if isinstance(run, str) and DOCUMENT in run]
    if len(places) != 1 or template.count(DOCUMENT) != 1 or QUERY not in template:
        raise EngineFailure(f"{model.path}: its template of pairs must hold {QUERY}, and {DOCUMENT} once")

    def tokens(part: list[int | str]) -> list[int]:
        read = ([run] if isinstance(run, int) else _read(model, run.replace(QUERY, query), most) for run in part)
        return [token for one in read for token in one]

    before, _, after = str(runs[places[0]]).partition(DOCUMENT)
    head, tail = tokens(runs[: places[0]]), tokens(runs[places[0] + 1 :])
    return Frame(head, before.replace(QUERY, query), after.replace(QUERY, query), tail)


def _runs(model: MappedModel, template: str) -> list[int | str]:
    """A template as control tokens and the stretches of text between them."""
    runtime, runs, at = llama(), list[int | str](), 0
    for token in model.tokenize(template, add_special=False):
        if runtime.llama_vocab_is_control(model.vocabulary, token):
            text = (runtime.llama_vocab_get_text(model.vocabulary, token) or b"").decode()
            if (found := template.find(text, at)) < 0:
                raise EngineFailure(f"{model.path}: its template of pairs holds {text!r} in another spelling")
            runs += [template[at:found], token]
            at = found + len(text)
    return [run for run in (*runs, template[at:]) if run != ""]
