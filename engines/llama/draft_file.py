"""The file of a draft model: its check against the model that it guesses for, its memory, and its way up."""

from __future__ import annotations

import dataclasses
import functools
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from edgeserve.engine import Footprint, ModelSpec
from edgeserve.engines.llama import model as llama_model
from edgeserve.engines.llama import probe
from edgeserve.engines.llama.estimate import by_shape
from edgeserve.engines.llama.fingerprint import Mark, mark
from edgeserve.engines.llama.gguf import TOKENS, Contents, read_contents, read_shape
from edgeserve.engines.llama.options import LlamaOptions, context_size
from edgeserve.engines.llama.probe import Layout
from edgeserve.errors import EngineFailure

if TYPE_CHECKING:
    from edgeserve.engines.llama.context import Context
    from edgeserve.engines.llama.draft_model import DraftModel

ROLE = "draft"
"""Role of the file in a specification."""
FILLING = 128
"""Tokens that one of the vocabularies may have beyond the other: models of a family fill theirs up differently
(SPEC_VOCAB_MAX_SIZE_DIFFERENCE of llama.cpp)."""
ARRAY_HEADER = 12
"""Bytes before the texts of a GGUF array: the type of its entries, and their number."""


def wanted(options: LlamaOptions, spec: ModelSpec) -> LlamaOptions:
    """The options, with the draft model where there is one and guesses are wanted."""
    return dataclasses.replace(options, drafting=ROLE in spec.files and options.speculation != "off")


def check(path: Path, base: Path) -> None:
    """Check that both models have one vocabulary. Raises EngineFailure, which names both and the difference.

    Files that passed are read again only after they changed.
    """
    if path != base:
        _check(path, base, mark(path), mark(base))


@functools.lru_cache(16)
def _check(path: Path, base: Path, *marks: Mark) -> None:
    draft, model = read_contents(path), read_contents(base)
    refused = f"{path.name} cannot draft for {base.name}"
    for key in ("tokenizer.ggml.model", "tokenizer.ggml.pre"):
        ours, theirs = draft.header.get(key), model.header.get(key)
        if ours != theirs:
            raise EngineFailure(f"{refused}: its {key} is {ours!r}, not {theirs!r}; choose a model of the same family")
    sizes = [int(one.header.get(TOKENS, 0)) for one in (draft, model)]
    if abs(sizes[0] - sizes[1]) > FILLING or not all(sizes):
        text = f"{refused}: it has {sizes[0]} tokens, and the model has {sizes[1]}"
        raise EngineFailure(f"{text}; choose a model of the same family")
    texts = [_texts(one, contents) for one, contents in ((path, draft), (base, model))]
    short, long = sorted(texts, key=len)
    if not long.startswith(short):
        at = _first_difference(*texts)
        raise EngineFailure(f"{refused}: token {at} of their vocabularies differs; choose a model of the same family")


def _texts(path: Path, contents: Contents) -> bytes:
    """The texts of the vocabulary as they stand in the file."""
    begin, end = contents.places[TOKENS]
    with path.open("rb") as file:
        file.seek(begin + ARRAY_HEADER)
        return file.read(end - begin - ARRAY_HEADER)


def _first_difference(one: bytes, other: bytes) -> int:
    """Number of the first text that differs."""
    number = at = 0
    while True:
        length = 8 + int(struct.unpack_from("<Q", one, at)[0])
        if one[at : at + length] != other[at : at + length]:
            return number
        number, at = number + 1, at + length


def lay_out(spec: ModelSpec, options: LlamaOptions, trained: int) -> Layout:
    """Memory of the draft model beside a model of ``trained`` tokens of context. The first call may take 0.3 s."""
    path = spec.files[ROLE]
    own = _options(options, context_size(options, trained))
    return probe.measure(path, spec.device, own) or by_shape(read_shape(path), own)


def by_header(spec: ModelSpec, options: LlamaOptions, trained: int) -> Layout:
    """As ``lay_out``, roughly and at once."""
    return by_shape(read_shape(spec.files[ROLE]), _options(options, context_size(options, trained)))


def beside(other: Footprint, spec: ModelSpec, layout: Layout, fewer: int) -> Footprint:
    """The memory of a model with its draft model, in a context of ``fewer`` tokens less than in the layout."""
    mapped = 0 if spec.files[ROLE] == spec.files["model"] else spec.files[ROLE].stat().st_size
    return dataclasses.replace(
        other,
        mapped=other.mapped + mapped,
        private=other.private + layout.model + layout.context - fewer * layout.token,
        device=other.device + layout.device - fewer * layout.device_token,
    )


def open_model(spec: ModelSpec, options: LlamaOptions, context: Context) -> DraftModel:
    """The draft model of a context, ready to guess. Blocks. Raises EngineFailure."""
    from edgeserve.engines.llama.context import Context
    from edgeserve.engines.llama.draft_model import DraftModel  # most models have none

    path = spec.files[ROLE]
    check(path, spec.files["model"])
    model = llama_model.acquire(path, spec.device, options)
    resident = model.heat()
    try:
        own = Context(model, _options(options, context.size), spec.threads)
        if not own.removable:
            own.free()
            raise EngineFailure(f"{path.name} cannot draft: its recurrent layers keep each token; choose another draft")
    except BaseException:
        resident()
        model.cool()
        llama_model.release(model)
        raise
    resident()
    tokens = min(llama_model.vocabulary_size(one.handle) for one in (model, context.model))
    return DraftModel(own, tokens, path.stat().st_size / spec.files["model"].stat().st_size)


def _options(options: LlamaOptions, size: int) -> LlamaOptions:
    """The draft model's context: as large as the other one's, without drafts of its own."""
    return dataclasses.replace(options, context=size, speculation="off", drafting=False, reordered=False)
