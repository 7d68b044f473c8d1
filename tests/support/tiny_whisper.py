"""A Whisper of random weights in CTranslate2 form, small enough to be built by a test.

The vocabulary size and the special tokens are those of a multilingual model. The model has two layers, 64 wide.
"""

from __future__ import annotations

import functools
import itertools
import json
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
from support.checkpoints import write_checkpoint
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

WIDTH, HEADS, LAYERS = 64, 2, 2
TEXT_TOKENS = 50_257
MADE_UP = ("".join(pair) for pair in itertools.product("qxyz", string.ascii_lowercase))
LANGUAGES = ("en", "de", "fr", "haw", *itertools.islice(MADE_UP, 95))
"""As many as the first multilingual models have."""
TASKS = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
SPECIALS = ("endoftext", "startoftranscript", *LANGUAGES, *TASKS)
TIMESTAMPS = 1501
POSITIONS = 448
PROMPT = 3
"""Tokens before the answer: start of transcript, language, task."""
CONVICTION = 40.0
"""Weight of a taught position against the random layers."""
VOCABULARY = TEXT_TOKENS + len(SPECIALS) + TIMESTAMPS


def special(name: str) -> int:
    return TEXT_TOKENS + SPECIALS.index(name)


def timestamp(seconds: float) -> int:
    return TEXT_TOKENS + len(SPECIALS) + round(seconds / 0.02)


def script(*tokens: int) -> dict[int, int]:
    """The model says these tokens in every window, whatever it hears; after the last one it repeats the last one."""
    return {PROMPT - 1 + at: tokens[min(at, len(tokens) - 1)] for at in range(POSITIONS - PROMPT + 1)}


SILENCE = {0: special("nospeech"), **dict.fromkeys(range(PROMPT + 8, POSITIONS), special("endoftext"))}
"""The model takes every window for silence, and is sure of none of the few tokens that it says."""


def build_damaged(folder: Path) -> Path:
    """As ``build``, without the variable decoder/layer_norm/gamma."""
    path = build(folder) / "model.bin"
    path.write_bytes(path.read_bytes().replace(b"decoder/layer_norm/gamma", b"decoder/layer_norm/gamme"))
    return folder


def build(folder: Path, *, mels: int = 80, stored: str = "float32", taught: Mapping[int, int] | None = None) -> Path:
    """Write model.bin, config.json, tokenizer.json and vocabulary.json. ``stored``: the type of the matrices.

    ``taught``: the token that the model predicts at a position, whatever it hears; it predicts at random elsewhere.
    """
    folder.mkdir(parents=True, exist_ok=True)
    variables = _taught(_variables(mels), taught or {})
    write_checkpoint(folder / "model.bin", _stored(variables, stored), _ALIASES)
    config = {
        "alignment_heads": [[0, 1], [1, 0]],
        "lang_ids": [special(name) for name in LANGUAGES],
        "suppress_ids": [3, 17, *(special(name) for name in (*TASKS[:4], "startoftranscript"))],
        "suppress_ids_begin": [220, special("endoftext")],
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name, text in _vocabulary().items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@functools.cache
def _vocabulary() -> dict[str, str]:
    """tokenizer.json and vocabulary.json, which are the same in every checkpoint."""
    tokenizer = _tokenizer()
    names = [tokenizer.id_to_token(number) for number in range(TEXT_TOKENS + len(SPECIALS))]
    stamps = [f"<|{step * 0.02:.2f}|>" for step in range(TIMESTAMPS)]
    return {"tokenizer.json": tokenizer.to_str(pretty=True), "vocabulary.json": json.dumps(names + stamps)}


def _taught(variables: Mapping[str, numpy.ndarray], taught: Mapping[int, int]) -> dict[str, numpy.ndarray]:
    """Point each taught position at the embedding of its token, which is made large so that sampling finds it too."""
    names = ("decoder/position_encodings/encodings", "decoder/embeddings/weight")
    positions, embeddings = (variables[name].copy() for name in names)
    embeddings[sorted(set(taught.values()))] *= 2
    for position, token in taught.items():
        positions[position] = CONVICTION * embeddings[token]
    return {**variables, **dict(zip(names, (positions, embeddings), strict=True))}


def _tokenizer() -> Any:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made_up = ("Ġ" + "".join(parts) for parts in itertools.product(string.ascii_lowercase, repeat=4))
    texts = [*letters, *itertools.islice(made_up, TEXT_TOKENS - len(letters))]
    tokenizer = Tokenizer(models.BPE({text: number for number, text in enumerate(texts)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(f"<|{name}|>", special=True) for name in SPECIALS])
    return tokenizer


_ALIASES = {"decoder/projection/weight": "decoder/embeddings/weight"}


@functools.cache
def _variables(mels: int) -> Mapping[str, numpy.ndarray]:
    random = numpy.random.default_rng(7)

    def draw(*shape: int, spread: float | None = None) -> numpy.ndarray:
        return (random.standard_normal(shape) * (spread or shape[-1] ** -0.5)).astype(numpy.float32)

    def linear(name: str, rows: int, columns: int) -> dict[str, numpy.ndarray]:
        return {f"{name}/weight": draw(rows, columns), f"{name}/bias": draw(rows, spread=0.1)}

    def norm(name: str) -> dict[str, numpy.ndarray]:
        return {f"{name}/gamma": 1 + draw(WIDTH, spread=0.1), f"{name}/beta": draw(WIDTH, spread=0.1)}

    found: dict[str, numpy.ndarray] = {}
    for part, places in (("encoder", 1500), ("decoder", POSITIONS)):
        found[f"{part}/num_heads"] = numpy.array(HEADS, numpy.int16)
        found[f"{part}/pre_norm"] = numpy.array(1, numpy.int8)
        found[f"{part}/activation"] = numpy.array(3, numpy.int8)
        found[f"{part}/alibi"] = numpy.array(0, numpy.int8)
        found[f"{part}/position_encodings/encodings"] = draw(places, WIDTH, spread=1.0)
        found |= norm(f"{part}/layer_norm")
        for index in range(LAYERS):
            layer = f"{part}/layer_{index}"
            found |= norm(f"{layer}/self_attention/layer_norm") | norm(f"{layer}/ffn/layer_norm")
            found |= linear(f"{layer}/self_attention/linear_0", 3 * WIDTH, WIDTH)
            found |= linear(f"{layer}/self_attention/linear_1", WIDTH, WIDTH)
            found |= linear(f"{layer}/ffn/linear_0", 4 * WIDTH, WIDTH) | linear(
                f"{layer}/ffn/linear_1", WIDTH, 4 * WIDTH
            )
    for index in range(LAYERS):
        layer = f"decoder/layer_{index}/attention"
        found |= norm(f"{layer}/layer_norm") | linear(f"{layer}/linear_0", WIDTH, WIDTH)
        found |= linear(f"{layer}/linear_1", 2 * WIDTH, WIDTH) | linear(f"{layer}/linear_2", WIDTH, WIDTH)
    for name, channels in (("conv1", mels), ("conv2", WIDTH)):
        found[f"encoder/{name}/weight"] = draw(WIDTH, channels, 3, spread=(3 * channels) ** -0.5)
        found[f"encoder/{name}/bias"] = draw(WIDTH, spread=0.1)
    found["decoder/embeddings/weight"] = draw(VOCABULARY, WIDTH, spread=0.3)
    found["decoder/scale_embeddings"] = numpy.array(0, numpy.int8)
    found["decoder/start_from_zero_embedding"] = numpy.array(0, numpy.int8)
    return found


def _stored(variables: dict[str, numpy.ndarray], kind: str) -> dict[str, numpy.ndarray]:
    stored: dict[str, numpy.ndarray] = {}
    for name, array in sorted(variables.items()):
        if array.dtype != numpy.float32 or kind == "float32":
            stored[name] = array
        elif kind == "float16":
            stored[name] = array.astype(numpy.float16)
        elif kind == "bfloat16":
            stored[name] = (array.view(numpy.uint32) >> 16).astype(numpy.uint16)
        elif kind == "int8" and array.ndim == 2 and "encodings" not in name:
            scale = 127 / numpy.abs(array).max(axis=1)
            stored[name] = numpy.rint(array * scale[:, None]).astype(numpy.int8)
            stored[f"{name}_scale"] = scale.astype(numpy.float32)
        else:
            stored[name] = array
    return stored
