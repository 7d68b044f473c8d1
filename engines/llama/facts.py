"""Facts about a GGUF model for people and programs that choose among models, from the header of its file."""

from __future__ import annotations

import math
from collections.abc import Iterator

from edgeserve.engine import ModelSpec
from edgeserve.engine_abilities import ModelFacts
from edgeserve.engines.llama.gguf import ARRAY, Contents, read_contents, whole
from edgeserve.engines.thinking import OPEN

TEMPLATE = "tokenizer.chat_template"
NAMES = (
    "F32 F16 Q4_0 Q4_1 - - - Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ2_XXS IQ2_XS "
    "Q2_K_S IQ3_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ3_M IQ2_S IQ2_M IQ4_XS IQ1_M BF16 - - - TQ1_0 TQ2_0 MXFP4_MOE"
)
TYPES = tuple(NAMES.split())
"""Names of ``general.file_type`` by its number: llama_ftype in llama.cpp's include/llama.h."""
SWITCHES = ("enable_thinking", OPEN)
"""Words in the templates of models that think."""
FILLING = (
    ("pre", "prefix", "<|fim_prefix|> <fim-prefix> <fim_prefix> <｜fim▁begin｜> <PRE> ▁<PRE> <|code_prefix|>"),
    ("suf", "suffix", "<|fim_suffix|> <fim-suffix> <fim_suffix> <｜fim▁hole｜> <SUF> ▁<SUF> <|code_suffix|>"),
    ("mid", "middle", "<|fim_middle|> <fim-middle> <fim_middle> <｜fim▁end｜> <MID> ▁<MID> <|code_middle|>"),
)
"""Tokens of models that fill text in: the newer and the older name of their entry, and their texts in vocabularies
without one (src/llama-vocab.cpp)."""
SOUGHT = frozenset(text.encode() for *_, texts in FILLING for text in texts.split())
LONGEST = 1000
"""Characters of a text that is returned."""


def facts(spec: ModelSpec) -> ModelFacts:
    """Reads the header of the file "model". Raises EngineFailure naming the file."""
    contents = read_contents(spec.files["model"], SOUGHT)
    header = contents.header
    family, template = str(header.get("general.architecture", "")), str(header.get(TEMPLATE, ""))
    return ModelFacts(
        form="gguf",
        family=family,
        parameters=sum(math.prod(one.sizes) for one in contents.tensors.values()),
        quantization=_type(whole(header, "general.file_type", len(TYPES))),
        context=whole(header, f"{family}.context_length"),
        width=whole(header, f"{family}.embedding_length"),
        template=template,
        abilities=tuple(_abilities(contents, template)),
        entries={name: value for name, value in header.items() if contents.kinds[name] != ARRAY and _told(name, value)},
    )


def _abilities(contents: Contents, template: str) -> Iterator[str]:
    if any(one in template for one in SWITCHES):
        yield "thinking"
    if all(_fills(contents, *names) for names in FILLING):
        yield "insert"


def _fills(contents: Contents, newer: str, older: str, texts: str) -> bool:
    """Whether the model has one of the tokens that ``FILLING`` lists."""
    entries = f"tokenizer.ggml.fim_{newer}_token_id", f"tokenizer.ggml.{older}_token_id"
    return any(one in contents.header for one in entries) or any(
        one.encode() in contents.tokens for one in texts.split()
    )


def _type(number: int) -> str:
    return TYPES[number].strip("-") if number < len(TYPES) else ""


def _told(name: str, value: object) -> bool:
    """Whether JSON can hold an entry, and in few characters."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return name != TEMPLATE and len(str(value)) <= LONGEST
