"""Speech to text on MLX: Whisper through mlx-whisper, on Apple silicon; elsewhere on MLX's processor build.

mlx-whisper keeps the model it used last in a module variable. Here the engine owns it and lends it for one window.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import math
import sys
from collections.abc import Iterator
from typing import Any

from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import INPUT_SAMPLE_RATE, SegmentEvent, TranscribeEvent, TranscribeRequest, TranscriptEnd, Word
from edgeserve.system import heap, pages
from engines import model_files
from engines.asr import mlx_memory
from engines.asr.families import windows
from engines.asr.stretches import Source
from engines.asr.whisper import files
from engines.asr.whisper import languages as whisper_languages
from engines.asr.whisper.decode import GREEDY
from engines.asr.whisper.transcribe import ENGLISH_ONLY

TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
PROMPT_RESET_TEMPERATURE = 0.5
PROMPT_CHARACTERS = 1000
"""Of the text so far that go with the next window; of their tokens, Whisper keeps the last 223."""
WEIGHTS = ("weights.safetensors", "weights.npz")
RUNTIME_BYTES, VOCABULARY_BYTES, SCORES = 100 << 20, 24 << 20, 3
"""Measured: private memory of mlx-whisper once imported, with SciPy and Numba, 87 MiB before and 115 after the first
times of words; of its vocabulary; how many tables of scores [heads, 1500, 1500], float16, the encoder has at a time."""


class Cancelled(Exception):
    """The request is no longer wanted."""


class MlxSpeechToText:
    """Files: ``weights`` and ``config``, in one folder, as mlx-whisper names them; float16 whatever they are stored in.

    No rung in between: MLX reads weights into memory of its own and can only let go of all of them, so parking closes.
    What the imported libraries take stays. ``threads`` has no effect: MLX has no such setting.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._model: Any = None
        self._own = 0

    @property
    def rung(self) -> Rung:
        return Rung.COLD if self._model is None else Rung.HOT

    def estimate(self) -> Footprint:
        """Weights are as large as their file; the first engine on this runtime brings in the runtime itself."""
        runtime = 0 if _loaded() else RUNTIME_BYTES
        heads = int(self._dimensions().get("n_audio_head", 0))
        window = SCORES * heads * 1500 * 1500 * 2 + (4 << 20)
        return Footprint(private=self.spec.size_bytes + VOCABULARY_BYTES + runtime, per_request=window)

    def footprint(self) -> Footprint:
        if self._model is None:
            return Footprint()
        import mlx.core as mx

        return Footprint(private=mx.get_active_memory() + mx.get_cache_memory() + self._own)

    def limit(self, memory: int, cache: int, wired: int | None) -> None:
        _load_runtime()
        mlx_memory.limit(memory, cache, wired)

    def open(self) -> None:
        if self._model is not None:
            return
        model_files.require(self.spec.files.values())
        _load_runtime()
        import mlx.core as mx

        before = pages.private_bytes()
        try:
            with _on(self.spec):
                self._model = self._load()
        except BaseException:
            self.close()
            raise
        heap.trim()
        self._own = max(0, pages.private_bytes() - before - mx.get_active_memory())

    def heat(self) -> None:
        self.open()

    def park(self) -> None:
        self.close()

    def close(self) -> None:
        self._model = None
        if _loaded():
            from mlx_whisper import tokenizer

            tokenizer.get_tokenizer.cache_clear()
            tokenizer.get_encoding.cache_clear()
            _release()

    def languages(self) -> tuple[str, ...]:
        vocabulary = self._dimensions().get("n_vocab")
        return whisper_languages.codes(vocabulary) if isinstance(vocabulary, int) else ()

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | None]:
        """Segments window by window, None for a window without any, then the end. Raises InvalidRequest for a language
        the model lacks, and for a translation by one that knows English only."""
        if self._model is None:
            raise EngineFailure(f"{self.spec.name} is {self.rung.name.lower()}, not hot")
        language = self._language(request.language)
        if request.translate and not self._model.is_multilingual:
            raise InvalidRequest(ENGLISH_ONLY, param="model")
        carried, source = request.prompt or "", Source(request.audio, cancel)
        try:
            for stretch in windows(source):
                found = self._window(stretch.samples, carried, language, request, cancel)
                language = found["language"]
                start, length = stretch.start / INPUT_SAMPLE_RATE, len(stretch.samples) / INPUT_SAMPLE_RATE
                segments = [_event(one, start, start + length) for one in found["segments"] if one["text"].strip()]
                told = [one for one in segments if one.start < one.end]
                yield from told or (None,)
                surprising = any(one.temperature > PROMPT_RESET_TEMPERATURE for one in segments[-1:])
                carried = "" if surprising else (carried + found["text"])[-PROMPT_CHARACTERS:]
            if not cancel.is_set():
                yield TranscriptEnd(language or "en", source.seconds)
        except Cancelled:
            return
        finally:
            _release()

    def _dimensions(self) -> dict[str, Any]:
        config = self.spec.files.get("config")
        return files.shape(config) if config is not None and config.is_file() else {}

    def _load(self) -> Any:
        """The model and its vocabulary, in memory when this returns."""
        weights, config = self.spec.files.get("weights"), self.spec.files.get("config")
        if weights is None or config is None or weights.name not in WEIGHTS or weights.parent != config.parent:
            raise EngineFailure(f"{self.spec.name} needs {' or '.join(WEIGHTS)} and config.json in one folder")
        import mlx.core as mx
        from mlx_whisper.load_models import load_model
        from mlx_whisper.tokenizer import get_tokenizer

        try:
            model = load_model(str(weights.parent), mx.float16)
            model.set_dtype(mx.float16)
            mx.eval(model.parameters())
        except Exception as error:  # MLX raises what the file makes it stumble over: ValueError, TypeError, …
            raise EngineFailure(f"{weights}: mlx-whisper cannot open it: {error}") from error
        get_tokenizer(model.is_multilingual, num_languages=model.num_languages, language="en", task="transcribe")
        return model

    def _language(self, wanted: str | None) -> str | None:
        if not self._model.is_multilingual:
            if wanted not in (None, "en"):
                raise InvalidRequest(f"this model knows English only, not {wanted!r}", param="language")
            return "en"
        from mlx_whisper.tokenizer import LANGUAGES

        known = list(LANGUAGES)[: self._model.num_languages]
        if wanted is not None and wanted not in known:
            raise InvalidRequest(f"unknown language {wanted!r}; known: {', '.join(sorted(known))}", param="language")
        return wanted

    def _window(
        self, samples: Any, carried: str, language: str | None, request: TranscribeRequest, cancel: Cancel
    ) -> Any:
        """mlx-whisper's own result for one window. Raises Cancelled, EngineFailure."""
        from mlx_whisper.transcribe import transcribe

        with _on(self.spec), _lent(self._model, cancel):
            try:
                return transcribe(
                    samples,
                    path_or_hf_repo="",  # of the model that is lent
                    temperature=_temperatures(request.temperature),
                    initial_prompt=carried.replace("<|", "< |") or None,  # tiktoken refuses text that spells a token
                    word_timestamps=request.word_timestamps,
                    language=language,
                    task="translate" if request.translate else "transcribe",
                )
            except Cancelled:
                raise
            except Exception as error:
                raise EngineFailure(f"mlx-whisper failed while transcribing: {error}") from error


def _temperatures(wanted: float) -> float | tuple[float, ...]:
    """At 0 one after the other, until the text is good; MLX divides by all others."""
    if wanted == 0:
        return TEMPERATURES
    return wanted if wanted >= GREEDY else 0.0


def _figure(value: Any) -> float:
    """0 for one that mlx-whisper could not make out, which JSON could not write."""
    return float(value) if math.isfinite(value) else 0.0


def _event(found: Any, start: float, end: float) -> SegmentEvent:
    """A segment of a window that lies between these seconds."""
    words = found.get("words", ())
    return SegmentEvent(
        start=min(start + float(found["start"]), end),
        end=min(start + float(found["end"]), end),
        text=found["text"],
        tokens=tuple(found["tokens"]),
        temperature=float(found["temperature"]),
        avg_logprob=_figure(found["avg_logprob"]),
        compression_ratio=_figure(found["compression_ratio"]),
        no_speech_prob=_figure(found["no_speech_prob"]),
        words=tuple(
            Word(min(start + float(one["start"]), end), min(start + float(one["end"]), end), one["word"])
            for one in words
        ),
    )


class _Listening:
    """A decoder that is asked for each token, and asks whether the token is still wanted."""

    def __init__(self, decoder: Any, cancel: Cancel) -> None:
        self._decoder = decoder
        self._cancel = cancel

    def __call__(self, *args: Any, **settings: Any) -> Any:
        if self._cancel.is_set():
            raise Cancelled
        return self._decoder(*args, **settings)


@contextlib.contextmanager
def _lent(model: Any, cancel: Cancel) -> Iterator[None]:
    """mlx-whisper uses this model, and stops within a token when cancelled."""
    if cancel.is_set():
        raise Cancelled
    from mlx_whisper.transcribe import ModelHolder

    decoder = model.decoder
    ModelHolder.model, ModelHolder.model_path = model, ""
    model.decoder = _Listening(decoder, cancel)
    try:
        yield
    finally:
        model.decoder = decoder
        ModelHolder.model = None


@contextlib.contextmanager
def _on(spec: ModelSpec) -> Iterator[None]:
    """On the device that is wanted; "auto" is the accelerator where there is one."""
    import mlx.core as mx

    if spec.device == "cuda" or (spec.device == "metal" and not mx.metal.is_available()):
        raise EngineFailure(
            f'device = "{spec.device}": MLX computes on {mx.default_device()} here; use device = "auto" or "cpu"'
        )
    with mx.stream(mx.cpu if spec.device == "cpu" else mx.default_device()):
        yield


def _loaded() -> bool:
    """Whether this process has the runtime in memory already."""
    return "mlx_whisper" in sys.modules


def _load_runtime() -> None:
    try:
        importlib.import_module("mlx_whisper")
        mlx_memory.core()
    except ImportError as error:
        raise EngineFailure(
            f"this model runs on MLX, which is not installed here ({error}): pip install 'edgeserve[apple]', or see "
            "docs/apple.md; the same model without -mlx in its name runs on ONNX Runtime"
        ) from error


def _release() -> None:
    """Give back what MLX keeps of arrays that are gone."""
    import mlx.core as mx

    gc.collect()
    mx.clear_cache()
    heap.trim()
