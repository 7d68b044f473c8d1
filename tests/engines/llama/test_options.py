"""Options of the llama.cpp engines: checked, and handed on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support.cases import each
from support.gates import FAKES, fake_spec
from support.server import considerate_governor

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engines.llama import context as llama_context
from edgeserve.engines.llama import devices, sequences
from edgeserve.engines.llama import model as llama_model
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.options import BATCH, BESIDE, batch_size, context_size, longest_draft, read_options
from edgeserve.engines.llama.runtime import llama
from edgeserve.errors import ConfigError, EngineFailure
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.messages import ChatRequest, Sampling, TokenEvent
from edgeserve.residency.pool import Pool


@each(
    ("options", "told"),
    [
        ({"contxt": 1}, "contxt is not a known setting; did you mean context"),
        ({"context": "big"}, "expected a whole number"),
        ({"kv_type": "f32"}, "expected one of f16, q8_0"),
        ({"temperature": -1}, "expected a number from 0 to 2"),
        ({"repeat_penalty": 0}, "expected a number from 0.01 to 10"),
        ({"temperature": float("nan")}, "expected a number from 0 to 2"),
        ({"context": 63}, "at least 64, or 0 for as many as memory allows"),
        ({"context": -1}, "at least 64, or 0 for as many as memory allows"),
        ({"threads_batch": 1.5}, "expected a whole number"),
        ({"window": "half"}, "expected one of sliding, full"),
        ({"split_mode": "tensor"}, "expected one of layer, row, none"),
        ({"tensor_split": 1}, "a list of shares"),
        ({"tensor_split": ["1"]}, "a list of shares"),
        ({"tensor_split": [0, 0]}, "not all 0"),
        ({"tensor_split": [-1, 2]}, "none below 0"),
        ({"tensor_split": [float("nan")]}, "none below 0"),
        ({"nodes": ["box2:x"]}, r"nodes = 'box2:x': expected a machine and its port"),
        ({"nodes": ["box2", "box2:50052"]}, "box2:50052 is named twice"),
        ({"nodes": [f"box{number}" for number in range(17)]}, "17 machines; llama.cpp takes 16"),
        ({"kv_type": "q8_0", "flash_attention": "off"}, 'set flash_attention = "auto", or kv_type = "f16"'),
    ],
)
def test_options_are_checked(options: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_options("llm", options)


@each(
    ("given", "trained", "size"),
    [
        ({}, 8192, 8192),
        ({}, 131_072, 32_768),
        ({}, 0, 2048),
        ({"context": 65_536}, 131_072, 65_536),
        ({"context": 4096}, 2048, 2048),
        ({"context": 0}, 512, 512),
    ],
)
def test_a_context_without_a_size_is_as_long_as_agents_need(given: dict[str, object], trained: int, size: int) -> None:
    assert context_size(read_options("llm", given), trained) == size


def test_a_context_for_whole_texts_stays_small_unless_it_is_asked_for() -> None:
    for job in ("embedding", "rerank"):
        assert read_options(job, {}).context == 2048
        assert read_options(job, {"context": 0}).context == 0


def test_options_reach_llama(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"threads_batch": 3, "kv_type": "q4_0", "window": "full", "context": 0}
    options = read_options("llm", {**given, "tensor_split": [3, 1], "split_mode": "row", "main_gpu": 1})
    runtime = llama()
    monkeypatch.setattr(runtime, "llama_model_n_ctx_train", lambda model: 4096)
    monkeypatch.setattr(llama_context, "vocabulary_size", lambda model: 49_152)
    monkeypatch.setattr(sequences, "beside", lambda model, options: BESIDE)
    context = llama_context.context_parameters(None, options, 2)
    assert (context.n_ctx, context.n_threads, context.n_threads_batch, context.swa_full) == (4096, 2, 3, True)
    assert context.type_k == context.type_v == runtime.GGML_TYPE_Q4_0
    assert llama_context.context_parameters(None, read_options("llm", {}), 2).n_threads_batch == 2
    assert llama_model.model_parameters("cpu", options).n_gpu_layers == 0
    monkeypatch.setattr(runtime, "llama_supports_gpu_offload", lambda: True)
    monkeypatch.setattr(devices, "accelerators", lambda: 2)
    model = llama_model.model_parameters("auto", options)
    assert (model.split_mode, model.main_gpu) == (runtime.LLAMA_SPLIT_MODE_ROW, 1)
    assert list(model.tensor_split[:3]) == [3.0, 1.0, 0.0]
    monkeypatch.setattr(devices, "accelerators", lambda: 1)
    with pytest.raises(EngineFailure, match=r"tensor_split = \[3, 1\]: llama\.cpp sees only 1 accelerators"):
        llama_model.model_parameters("auto", options)


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        ({}, BATCH),
        ({"batch": 1024}, 1024),
        ({"batch": 32}, 32),
        ({"batch": 1024, "context": 512}, 512),
        ({"batch": 32, "parallel": 100}, 104),
    ],
)
def test_a_call_has_so_many_tokens(monkeypatch: pytest.MonkeyPatch, given: dict[str, object], tokens: int) -> None:
    monkeypatch.setattr(llama(), "llama_model_n_ctx_train", lambda model: 4096)
    monkeypatch.setattr(llama_context, "vocabulary_size", lambda model: 49_152)
    monkeypatch.setattr(sequences, "beside", lambda model, options: BESIDE)
    parameters = llama_context.context_parameters(None, read_options("llm", given), 2)
    assert (parameters.n_batch, parameters.n_ubatch) == (tokens, tokens)


@pytest.mark.parametrize(("vocabulary", "longest"), [(320, 16), (49_152, 16), (151_936, 13), (262_144, 8)])
def test_the_logits_of_a_draft_take_little_memory(vocabulary: int, longest: int) -> None:
    assert longest_draft(read_options("llm", {}), vocabulary) == longest
    assert longest_draft(read_options("llm", {"speculation": "off"}), vocabulary) == 0
    assert longest_draft(read_options("embedding", {}), vocabulary) == 0


@pytest.mark.models
@pytest.mark.parametrize(
    "options", [{"kv_type": "q4_0"}, {"kv_type": "q8_0", "flash_attention": "on"}, {"threads_batch": 1}]
)
def test_it_answers_with_other_options(pulled: Callable[[str], Mapping[str, Path]], options: dict[str, object]) -> None:
    files = {"model": pulled("smollm2-135m-instruct")["model"]}
    options = {"context": 256, **options}
    engine = LlamaChat(
        ModelSpec("llm", "smollm2", "edgeserve.engines.llama.chat:LlamaChat", files, threads=2, options=options)
    )
    engine.open()
    engine.heat()
    request = ChatRequest(prompt="The capital of France is", max_tokens=3, sampling=Sampling(temperature=0.0))
    told = "".join(event.text for event in engine.chat(request, threading.Event()) if isinstance(event, TokenEvent))
    engine.close()
    assert told.startswith(" Paris")


@pytest.mark.parametrize(
    ("job", "pooled", "ranked"), [("llm", False, False), ("embedding", True, False), ("rerank", True, True)]
)
def test_jobs_that_read_whole_texts(job: str, pooled: bool, ranked: bool) -> None:
    options = read_options(job, {})
    assert (options.pooled, options.ranked) == (pooled, ranked)


def test_only_embeddings_have_a_pooling() -> None:
    assert read_options("embedding", {"pooling": "cls"}).pooling == "cls"
    with pytest.raises(ConfigError, match=r"\[rerank\] pooling is not a known setting"):
        read_options("rerank", {"pooling": "cls"})


TUNED_ON = {"repack": "on", "flash_attention": "off", "threads_batch": 6, "threads": 3}


def test_measured_settings_fill_in_for_keys_that_are_left_to_the_machine() -> None:
    options = read_options("llm", {"tuned": TUNED_ON})
    assert (options.reordered, options.flash_attention, options.threads_batch) == (True, "off", 6)
    assert options.repack == "auto"


@pytest.mark.parametrize("given", [{"tuned": {"batch": 128}}, {"batch": 32}, {}])
def test_a_picture_fits_into_one_call_whatever_is_faster_for_text(given: dict[str, object]) -> None:
    """Gemma's 256 tokens of a picture attend to each other in both directions, which two calls cannot do."""
    assert batch_size(read_options("vision", given), 4096) == BATCH
    assert batch_size(read_options("vision", {"batch": 512, **given}), 4096) >= BATCH


@pytest.mark.parametrize(
    ("written", "reordered"), [({"repack": "off"}, False), ({"repack": "on"}, True), ({"repack": "auto"}, True)]
)
def test_written_keys_win_over_measured_ones(written: dict[str, object], reordered: bool) -> None:
    mine = {**written, "flash_attention": "on", "threads_batch": 1}
    options = read_options("llm", {**mine, "tuned": TUNED_ON})
    assert (options.reordered, options.flash_attention, options.threads_batch) == (reordered, "on", 1)


def test_without_a_measurement_only_a_written_key_reorders() -> None:
    assert not read_options("llm", {}).reordered
    assert read_options("llm", {"repack": "on"}).reordered


def test_a_quantised_cache_keeps_the_flash_attention_that_it_needs() -> None:
    assert read_options("llm", {"kv_type": "q8_0", "tuned": TUNED_ON}).flash_attention == "auto"


def test_a_copy_that_the_machine_chose_can_be_saved_until_the_engine_is_restored(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(bytes(1000))
    engine = LlamaChat(ModelSpec("llm", "m", "x:Y", {"model": model}, options={"tuned": TUNED_ON}))
    assert engine.savings()["reordered"] == 1000
    engine.shed("reordered", 1000)
    assert not engine.options.reordered
    assert engine.savings()["reordered"] == 0
    engine.restore()
    assert engine.options.reordered


def test_a_copy_that_the_settings_ask_for_is_no_saving(tmp_path: Path) -> None:
    engine = LlamaChat(ModelSpec("llm", "m", "x:Y", {"model": tmp_path / "m.gguf"}, options={"repack": "on"}))
    assert engine.savings()["reordered"] == 0


def test_a_model_whose_file_has_gone_fails_no_request_to_another(tmp_path: Path) -> None:
    """Each decision on memory asks all engines what they can save. All other models answered 500."""
    files = {"model": tmp_path / "gone.gguf"}
    gone = LlamaChat(ModelSpec("llm", "m", "x:Y", files, options={"tuned": TUNED_ON}))
    other = FAKES["tts"](fake_spec("tts"))
    governor = considerate_governor()
    pool = Pool([ThreadHost(one, governor) for one in (gone, other)], governor)
    pool.gates["tts"].preload()
    assert (gone.savings()["reordered"], other.rung) == (0, Rung.HOT)
