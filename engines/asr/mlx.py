"""Speech to text on MLX: Whisper through mlx-whisper, on Apple silicon; elsewhere on MLX's processor build.

mlx-whisper keeps the model that it used last in a module variable. Here the engine owns the model and lends it to
mlx-whisper for one window at a time.
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
from edgeserve.engines import model_files
from edgeserve.engines.asr import mlx_memory
from edgeserve.engines.asr.families import windows
from edgeserve.engines.asr.rests import Begin, rest
from edgeserve.engines.asr.stretches import Source
from edgeserve.engines.asr.whisper import files, languages
from edgeserve.engines.asr.whisper.decode import CANCELLED, GREEDY
from edgeserve.engines.asr.whisper.passage import PROMPT_RESET_TEMPERATURE, TEMPERATURES
from edgeserve.errors import Cancelled, EngineFailure, InvalidRequest
from edgeserve.messages import Rest, SegmentEvent, TranscribeEvent, TranscribeRequest, TranscriptEnd, Word
from edgeserve.system import heap
from edgeserve.system.growth import Growth

PROMPT_CHARACTERS = 1000
"""Characters of the text so far that prompt the next window. Whisper keeps the last 223 tokens of them."""
WEIGHTS = ("weights.safetensors", "weights.npz")
RUNTIME_BYTES = 100 << 20
"""Private memory of mlx-whisper once imported, with SciPy and Numba, measured: 87 MiB, and 115 after the first times of
words."""
VOCABULARY_BYTES = 24 << 20
"""Private memory of the vocabulary, measured."""
SCORES = 3
"""Tables of scores [heads, 1500, 1500], float16, that the encoder holds at once, measured."""


class MlxSpeechToText:
    """Files: ``weights`` and ``config``, in one folder, as mlx-whisper names them. MLX computes in float16.

    The engine has no warm rung, and parking closes: MLX reads weights into memory of its own, and can only free all of
    them. The memory of the imported libraries stays. ``threads`` has no effect: MLX has no such setting.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._model: Any = None
        self._own, self._exact = 0, True

    @property
    def rung(self) -> Rung:
        return Rung.COLD if self._model is None else Rung.HOT

    def estimate(self) -> Footprint:
        """Weights are as large as their file. The first engine on this runtime adds the memory of the runtime."""
        runtime = 0 if _loaded() else RUNTIME_BYTES
        heads = int(files.shape(self.spec).get("n_audio_head", 0))
        window = SCORES * heads * 1500 * 1500 * 2 + (4 << 20)
        return Footprint(private=self.spec.size_bytes + VOCABULARY_BYTES + runtime, per_request=window)

    def footprint(self) -> Footprint:
        if self._model is None:
            return Footprint()
        import mlx.core as mx

        return Footprint(private=mx.get_active_memory() + mx.get_cache_memory() + self._own, exact=self._exact)

    def limit(self, memory: int, cache: int, wired: int | None) -> None:
        _load_runtime()
        mlx_memory.limit(memory, cache, wired)

    def open(self) -> None:
        if self._model is not None:
            return
        model_files.require(self.spec.files.values())
        _load_runtime()
        import mlx.core as mx

        growth = Growth()
        try:
            with _on(self.spec):
                self._model = self._load()
        except BaseException:
            self.close()
            raise
        heap.trim()
        grown = growth.end()
        self._own, self._exact = max(0, grown.bytes - mx.get_active_memory()), grown.exact

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
        vocabulary = files.shape(self.spec).get("n_vocab")
        return languages.codes(vocabulary) if isinstance(vocabulary, int) else ()

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | Rest | None]:
        """Segments window by window, None for a window without segments and while no sound comes, then the end.

        Raises InvalidRequest for a language that the model lacks, and for a translation by an English-only model.
        """
        if self._model is None:
            raise EngineFailure(f"{self.spec.name} is {self.rung.name.lower()}, not hot")
        begin = Begin.of(request)
        language = self._language(begin.known.get("language", request.language))
        if request.translate and not self._model.is_multilingual:
            raise InvalidRequest(languages.ENGLISH_ONLY, param="model")
        carried = begin.known.get("carried", request.prompt or "")
        source = Source(request.audio, cancel, begin.place.at)
        try:
            for stretch in windows(source, begin.place):
                if stretch is None:
                    yield None
                    continue
                if begin.is_far(stretch.start):
                    yield rest(stretch.place, language=language, carried=carried)
                found = self._window(stretch.samples, carried, language, request, cancel)
                language = found["language"]
                segments = [_event(one, *stretch.seconds) for one in found["segments"] if one["text"].strip()]
                yield from [one for one in segments if one.start < one.end] or (None,)
                surprising = any(one.temperature > PROMPT_RESET_TEMPERATURE for one in segments[-1:])
                carried = "" if surprising else (carried + found["text"])[-PROMPT_CHARACTERS:]
            if not cancel.is_set():
                yield TranscriptEnd(language or "en", source.seconds)
        except Cancelled:
            return
        finally:
            _release()

    def _load(self) -> Any:
        """Read the model and its vocabulary into memory. Raises EngineFailure."""
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
        except Exception as error:  # MLX raises errors of many classes for a damaged file: ValueError, TypeError, …
            raise EngineFailure(f"{weights}: mlx-whisper cannot open it: {error}") from error
        get_tokenizer(model.is_multilingual, num_languages=model.num_languages, language="en", task="transcribe")
        return model

    def _language(self, wanted: str | None) -> str | None:
        from mlx_whisper.tokenizer import LANGUAGES

        multilingual = self._model.is_multilingual
        return languages.checked(wanted, list(LANGUAGES)[: self._model.num_languages] if multilingual else ())

    def _window(
        self, samples: Any, carried: str, language: str | None, request: TranscribeRequest, cancel: Cancel
    ) -> Any:
        """The result of mlx-whisper for one window. Raises Cancelled and EngineFailure."""
        from mlx_whisper.transcribe import transcribe

        with _on(self.spec), _lent(self._model, cancel):
            try:
                return transcribe(
                    samples,
                    path_or_hf_repo="",  # the name of the lent model
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
    """At 0 all temperatures, one after the other until the text is good. MLX cannot divide by the smallest numbers."""
    if wanted == 0:
        return TEMPERATURES
    return wanted if wanted >= GREEDY else 0.0


def _figure(value: Any) -> float:
    """The figure, or 0 for NaN or infinity, which JSON cannot write."""
    return float(value) if math.isfinite(value) else 0.0


def _event(found: Any, start: float, end: float) -> SegmentEvent:
    """A segment of mlx-whisper's result for the window from ``start`` to ``end``, in seconds of the file."""
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
    """A decoder that stops with Cancelled before the next token once the request is cancelled."""

    def __init__(self, decoder: Any, cancel: Cancel) -> None:
        self._decoder = decoder
        self._cancel = cancel

    def __call__(self, *args: Any, **settings: Any) -> Any:
        if self._cancel.is_set():
            raise Cancelled(CANCELLED)
        return self._decoder(*args, **settings)


@contextlib.contextmanager
def _lent(model: Any, cancel: Cancel) -> Iterator[None]:
    """Lend the model to mlx-whisper, which then stops within a token when the request is cancelled."""
    if cancel.is_set():
        raise Cancelled(CANCELLED)
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
    """Compute on the device that is configured; "auto" is the accelerator where there is one."""
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
    """Give back the memory that MLX keeps of freed arrays."""
    import mlx.core as mx

    gc.collect()
    mx.clear_cache()
    heap.trim()
