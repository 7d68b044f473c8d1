"""Whisper on MLX through the contract, on a small model that says a script; ``test_mlx_models.py`` has a real one."""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from support import tiny_whisper
from support.contract import SpeechToTextContract, told
from support.mlx import needs_mlx
from support.transcripts import CancelAfter, rested, transcribe

from edgeserve.engine import Footprint, ModelSpec, Rung
from edgeserve.engines.asr.mlx import MlxSpeechToText
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import Pcm, TranscribeRequest, TranscriptEnd
from edgeserve.models.convert import whisper_mlx as conversion

pytestmark = pytest.mark.slow

RATE = 16_000


def spec_of(files: Mapping[str, Path], **settings: Any) -> ModelSpec:
    return ModelSpec("asr", "whisper-mlx", "edgeserve.engines.asr.mlx:MlxSpeechToText", files, **settings)


SAID = (
    tiny_whisper.timestamp(0),
    *range(1000, 1008),
    tiny_whisper.timestamp(2),
    tiny_whisper.special("endoftext"),
)
"""The tokens of the small model in every window: eight tokens of text between two timestamps."""


def noise(seconds: float) -> Any:
    return (numpy.random.default_rng(1).standard_normal(int(seconds * RATE)) / 10).astype("<f4")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("mlx")
    return conversion.convert(
        tiny_whisper.build(folder / "checkpoint", taught=tiny_whisper.script(*SAID)), folder / "model"
    )


@needs_mlx
class TestMlxWhisper(SpeechToTextContract):
    make = MlxSpeechToText
    pcm = noise(3).tobytes()

    @pytest.fixture
    def spec(self, files: Mapping[str, Path]) -> ModelSpec:
        return spec_of(files)

    def run(self, engine: Any, cancel: threading.Event) -> Iterator[Any]:
        """In a known language: the model listens once more to detect one."""
        return engine.transcribe(TranscribeRequest(Pcm(self.pcm), language="en"), cancel)

    def test_silence_has_no_words(self, tmp_path: Path) -> None:
        source = tiny_whisper.build(tmp_path / "checkpoint", taught=tiny_whisper.SILENCE)
        engine = MlxSpeechToText(spec_of(conversion.convert(source, tmp_path / "model")))
        engine.heat()
        super().test_silence_has_no_words(engine)
        engine.close()


@pytest.fixture(scope="module")
def opened(files: Mapping[str, Path]) -> Iterator[MlxSpeechToText]:
    engine = MlxSpeechToText(spec_of(files))
    yield engine
    engine.close()


@pytest.fixture
def engine(opened: MlxSpeechToText) -> MlxSpeechToText:
    """Hot; a test may park or close it."""
    opened.heat()
    return opened


@needs_mlx
def test_times_go_on_from_window_to_window(engine: MlxSpeechToText) -> None:
    """At a temperature at which no text goes with the next window, where it would move the script."""
    first, second, end = transcribe(engine, noise(32), temperature=1.0, language="en")
    assert end == TranscriptEnd("en", 32.0)
    assert (first.start, first.end) == (0, 2)
    assert 29 < second.start <= 30
    assert second.end == pytest.approx(second.start + 2)
    assert first.tokens == second.tokens == SAID[:-1]


@needs_mlx
def test_an_answer_that_rests_has_the_text_of_one_that_does_not(engine: MlxSpeechToText) -> None:
    """The text before prompts the next window, and the language is detected once."""
    sound = noise(95)
    assert rested(engine, sound, prompt="Hi.") == (transcribe(engine, sound, prompt="Hi."), 1)


@needs_mlx
def test_transcriptions_that_take_turns_hear_the_same_as_alone(engine: MlxSpeechToText) -> None:
    """Another client begins beside a long recording: a window each."""
    sounds = [noise(62), noise(3)]
    alone = [transcribe(engine, sound, language="en") for sound in sounds]
    wanted = [TranscribeRequest(Pcm(sound.tobytes()), language="en") for sound in sounds]
    together: list[list[Any]] = [[], []]
    for turn in itertools.zip_longest(*(engine.transcribe(one, threading.Event()) for one in wanted)):
        for heard, event in zip(together, turn, strict=True):
            heard += told([event])
    assert together == alone


@needs_mlx
def test_the_language_is_detected_or_must_be_known(engine: MlxSpeechToText) -> None:
    *_, end = transcribe(engine, noise(1))
    assert len(end.language) in (2, 3)
    with pytest.raises(InvalidRequest, match=r"unknown language 'xx'; known: .*\bde\b") as caught:
        transcribe(engine, noise(1), language="xx")
    assert caught.value.param == "language"


@needs_mlx
def test_a_prompt_may_spell_a_special_token(engine: MlxSpeechToText) -> None:
    told = transcribe(engine, noise(1), temperature=1.0, language="en", prompt="What <|endoftext|> means")
    assert isinstance(told[-1], TranscriptEnd)


@needs_mlx
@pytest.mark.parametrize("temperature", [5e-324, 1e-40])
def test_temperatures_that_nothing_can_be_divided_by_are_greedy(engine: MlxSpeechToText, temperature: float) -> None:
    segment, _ = transcribe(engine, noise(3), temperature=temperature, language="en")
    assert (segment.temperature, segment.tokens) == (0.0, SAID[:-1])
    assert numpy.isfinite(segment.avg_logprob)


@needs_mlx
def test_no_audio_is_an_empty_transcript(engine: MlxSpeechToText) -> None:
    assert transcribe(engine, []) == [TranscriptEnd("en", 0.0)]


@needs_mlx
def test_cancel_stops_within_a_token(engine: MlxSpeechToText) -> None:
    cancel = CancelAfter(5)
    assert list(engine.transcribe(TranscribeRequest(Pcm(noise(1).tobytes()), language="en"), cancel)) == []
    assert cancel.asked == 6
    assert len(transcribe(engine, noise(3), language="en")) == 2


@needs_mlx
@pytest.mark.parametrize("step", ["park", "close"])
def test_a_step_down_leaves_nothing_with_the_runtime(engine: MlxSpeechToText, step: str) -> None:
    import mlx.core as mx
    from mlx_whisper.transcribe import ModelHolder

    transcribe(engine, noise(1), language="en")
    assert ModelHolder.model is None, "lent for one window"
    held, gone = mx.get_active_memory(), weakref.ref(engine._model)
    assert held > engine.spec.size_bytes * 0.9
    assert engine.footprint().private >= held
    getattr(engine, step)()
    assert gone() is None
    assert mx.get_active_memory() < 0.05 * held
    assert mx.get_cache_memory() == 0
    assert (engine.rung, engine.footprint()) == (Rung.COLD, Footprint())


@needs_mlx
def test_a_failed_step_up_leaves_nothing(files: Mapping[str, Path], tmp_path: Path) -> None:
    damaged = {"weights": tmp_path / "weights.safetensors", "config": tmp_path / "config.json"}
    damaged["weights"].write_bytes(files["weights"].read_bytes()[:100_000])
    damaged["config"].write_bytes(files["config"].read_bytes())
    engine = MlxSpeechToText(spec_of(damaged))
    with pytest.raises(EngineFailure, match=r"weights\.safetensors: mlx-whisper cannot open it"):
        engine.open()
    assert engine.rung is Rung.COLD
    damaged["config"].write_text('{"n_mels": 80, "n_nonsense": 1}', encoding="utf-8")
    with pytest.raises(EngineFailure, match="n_nonsense"):
        engine.open()


@needs_mlx
def test_weights_of_other_types_and_containers_become_float16(files: Mapping[str, Path], tmp_path: Path) -> None:
    import mlx.core as mx

    loaded = mx.load(str(files["weights"]))
    arrays = {name: numpy.array(array.astype(mx.float32)) for name, array in loaded.items()}
    arrays["alignment_heads"] = arrays["alignment_heads"].astype("<i4")
    numpy.savez(tmp_path / "weights.npz", **arrays)
    (tmp_path / "config.json").write_bytes(files["config"].read_bytes())
    engine = MlxSpeechToText(spec_of({"weights": tmp_path / "weights.npz", "config": tmp_path / "config.json"}))
    engine.open()
    assert engine._model.decoder.token_embedding.weight.dtype == mx.float16
    assert isinstance(transcribe(engine, noise(1), language="en")[-1], TranscriptEnd)
    engine.close()


@needs_mlx
@pytest.mark.parametrize("device", ["cuda", "metal"])
def test_a_device_that_mlx_lacks_is_told(files: Mapping[str, Path], device: Any) -> None:
    import mlx.core as mx

    if device == "metal" and mx.metal.is_available():
        pytest.skip("this machine has Metal")
    engine = MlxSpeechToText(spec_of(files, device=device))
    with pytest.raises(EngineFailure, match=f'device = "{device}": MLX computes on'):
        engine.open()
    assert engine.rung is Rung.COLD


def test_without_mlx_it_says_what_to_install(files: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlx_whisper", None)
    with pytest.raises(EngineFailure, match=r"edgeserve\[apple\].*without -mlx"):
        MlxSpeechToText(spec_of(files)).open()


@needs_mlx
def test_files_of_another_layout_are_told(files: Mapping[str, Path]) -> None:
    engine = MlxSpeechToText(spec_of({"config": files["config"]}))
    with pytest.raises(EngineFailure, match=r"needs weights\.safetensors or weights\.npz and config\.json"):
        engine.open()
