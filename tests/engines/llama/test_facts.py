"""Facts in the header of a GGUF file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.fuzz import corpus
from support.tiny_gguf import finish

from edgeserve.engine import ModelSpec
from edgeserve.engine_abilities import ModelFacts
from edgeserve.engines.llama.facts import facts
from edgeserve.engines.llama.gguf import read_contents
from edgeserve.errors import EngineFailure


def of(path: Path) -> ModelFacts:
    return facts(ModelSpec("llm", "small", "edgeserve.engines.llama.chat:LlamaChat", {"model": path}))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(corpus.headers()["llama"])
    return path


def test_the_figures_of_a_model(model: Path) -> None:
    found = of(model)
    square, half = corpus.WIDTH**2, corpus.WIDTH**2 // 2
    assert found.parameters == 2 * corpus.WORDS * corpus.WIDTH + 3 * corpus.WIDTH + 5 * square + 2 * half
    assert (found.form, found.family, found.context, found.width) == ("gguf", "llama", 64, corpus.WIDTH)
    assert found.template == read_contents(model).header["tokenizer.chat_template"]
    assert found.abilities == ()


def test_entries_are_numbers_and_short_texts(model: Path) -> None:
    entries = of(model).entries
    assert entries["general.architecture"] == "llama"
    assert entries["llama.block_count"] == 1
    assert "tokenizer.chat_template" not in entries
    assert "tokenizer.ggml.tokens" not in entries


@pytest.mark.parametrize(
    ("number", "name"), [(0, "F32"), (7, "Q8_0"), (15, "Q4_K_M"), (4, ""), (38, "MXFP4_MOE"), (99, "")]
)
def test_the_type_of_the_weights(tmp_path: Path, number: int, name: str) -> None:
    assert of(written(tmp_path, number, "{{ messages }}")).quantization == name


@pytest.mark.parametrize(
    ("template", "abilities"),
    [("{% if enable_thinking %}", ("thinking",)), ("<think>", ("thinking",)), ("{{ messages }}", ())],
)
def test_a_template_tells_whether_a_model_thinks(tmp_path: Path, template: str, abilities: tuple[str, ...]) -> None:
    assert of(written(tmp_path, 0, template)).abilities == abilities


MARKS = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
ENTRIES = ["tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.suffix_token_id", "tokenizer.ggml.fim_mid_token_id"]


@pytest.mark.parametrize(
    ("tokens", "entries", "fills"),
    [
        (["a", *MARKS], [], True),
        (["a", *MARKS[:2]], [], False),
        ([f"{one} " for one in MARKS], [], False),
        (["a"], ENTRIES, True),
        (MARKS[2:], ENTRIES[:2], True),
        (MARKS[1:], ENTRIES[1:], False),
    ],
)
def test_a_vocabulary_tells_whether_a_model_fills_in(
    tmp_path: Path, tokens: list[str], entries: list[str], fills: bool
) -> None:
    path = written(tmp_path, 0, "", tokens, entries)
    assert of(path).abilities == (("insert",) if fills else ())


def written(folder: Path, number: int, template: str, tokens: Sequence[str] = (), entries: Sequence[str] = ()) -> Path:
    import gguf

    path = folder / "model.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_file_type(number)
    writer.add_chat_template(template)
    if tokens:
        writer.add_token_list(list(tokens))
    for one in entries:
        writer.add_uint32(one, 1)
    finish(writer)
    return path


def test_a_broken_file_names_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(EngineFailure, match=r"a\.gguf"):
        of(path)
