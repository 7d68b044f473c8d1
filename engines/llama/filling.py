"""Prompts that fill text in: the text before a gap and behind it, between the tokens that a model has for this.

The form is that of llama.cpp's server (format_prompt_infill in tools/server/server-common.cpp):

    [BOS] [REPOSITORY]myproject [FILE]name text … [FILE]filename [BEFORE]prefix [BEHIND]suffix [MIDDLE]

The first line of it, other files of a repository, is in the form of Qwen2.5-Coder (https://arxiv.org/pdf/2409.12186).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama.model import MappedModel
from edgeserve.engines.llama.runtime import llama
from edgeserve.errors import InvalidRequest, NotSupported
from edgeserve.messages import ChatRequest

WINDOW = 2048
"""Tokens around the gap at most, llama-server's batch: three quarters before it, one behind it."""
ANSWER_SHARE = 4
"""The prompt leaves this part of the context to the answer, or as much as the answer may take."""
CHARS = 8
"""Characters of a token, more than most have."""
NONE = -1
"""llama.cpp's token of a mark that a vocabulary lacks."""
REPOSITORY, FILE, SNIPPET = "myproject\n", "filename\n", "\n\n--- snippet ---\n\n"
"""llama-server's names of the repository and the file with the gap, and its border between files without a mark."""

Split = Callable[[str], list[int]]
"""Cuts a text into tokens, none of them a control token."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Tokens that a model has for prompts with a gap; ``NONE`` for ``repository``, ``file`` or ``begin`` it lacks."""

    before: int
    behind: int
    middle: int
    repository: int = NONE
    file: int = NONE
    begin: int = NONE


def filling(model: MappedModel, request: ChatRequest, limit: int) -> list[int]:
    """The prompt of a request with a suffix, which a context of ``limit`` tokens holds. Far text is left out.

    Raises NotSupported for a model without the tokens, InvalidRequest for a prompt of tokens or half a character.
    """
    marks, before = _marks(model.vocabulary), request.prompt
    if NONE in (marks.before, marks.behind, marks.middle):
        text = "this model has no tokens for a text with a gap: use a model for code that can fill in"
        raise NotSupported(text, param="suffix")
    if not isinstance(before, str):
        raise InvalidRequest("a suffix needs a prompt of text, not of tokens", param="prompt")

    def split(text: str) -> list[int]:
        return model.tokenizer.tokenize(text, add_special=False, parse_special=False)

    def beginning(text: str, most: int) -> Sequence[int]:
        return model.tokenizer.beginning(text, most)[0]

    answer = limit if request.max_tokens is None else request.max_tokens
    room = limit - max(1, min(limit // ANSWER_SHARE, answer))
    window = min(WINDOW, room)
    behind = beginning(request.suffix or "", max(0, window // 4 - 4))  # 4: the marks and BOS
    around = [marks.before, *ending(split, before, 3 * (window // 4)), marks.behind, *behind, marks.middle]
    begin = [] if marks.begin == NONE else [marks.begin]
    others = (
        [] if request.snippets is None else _repository(marks, split, request.snippets, room - len(begin) - len(around))
    )
    return [*begin, *others, *around]


def ending(split: Split, text: str, most: int) -> list[int]:
    """The last ``most`` tokens of a text. The cost grows with ``most``, not with the text."""
    size = CHARS * most
    while most:
        tokens = split(text[-size:])
        if len(tokens) >= most or size >= len(text):
            return tokens[-most:]
        size *= 2
    return []


def _repository(marks: Marks, split: Split, files: Sequence[tuple[str, str]], room: int) -> list[int]:
    """The other files, and the head of the file with the gap: the last ``room`` tokens of them."""
    found = [] if marks.file == NONE else [marks.file, *split(FILE)]
    for name, text in reversed(files):
        if len(found) >= room:
            break
        head = split(SNIPPET) if marks.file == NONE else [marks.file, *split(f"{name}\n")]
        found = [*head, *ending(split, text, room - len(found)), *found]
    if marks.repository != NONE:
        found = [marks.repository, *split(REPOSITORY), *found]
    return found[len(found) - room :] if len(found) > room else found


def _marks(vocabulary: Any) -> Marks:
    runtime = llama()
    begins = runtime.llama_vocab_get_add_bos(vocabulary)
    return Marks(
        before=int(runtime.llama_vocab_fim_pre(vocabulary)),
        behind=int(runtime.llama_vocab_fim_suf(vocabulary)),
        middle=int(runtime.llama_vocab_fim_mid(vocabulary)),
        repository=int(runtime.llama_vocab_fim_rep(vocabulary)),
        file=int(runtime.llama_vocab_fim_sep(vocabulary)),
        begin=int(runtime.llama_vocab_bos(vocabulary)) if begins else NONE,
    )
