"""One side of the speech benchmark in a process of its own: requests are lines of JSON on stdin, answers on stdout.

    python -m benchmarks.speech_child SIDE ARGUMENTS

The sides are the functions in ``SIDES``. A request names a WAV (16 kHz, mono, 16 bit) to transcribe, or a text to
speak. Loading is not timed. An answer holds:

- ``seconds``, and ``processor``: seconds of processor time of this process
- ``first``: seconds to the first text or sound
- the transcript, or the seconds of sound
"""

from __future__ import annotations

import json
import sys
import threading
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Answer = dict[str, Any]
Job = Callable[[Any], Iterator[Any]]
"""Yields pieces of an answer as they are ready: texts, or seconds of sound."""


def samples_of(path: str) -> Any:
    """float32 in [-1, 1)."""
    import numpy

    with wave.open(path, "rb") as file:
        return numpy.frombuffer(file.readframes(file.getnframes()), "<i2").astype(numpy.float32) / 32768


def engine(model: str, threads: str, quantization: str) -> Job:
    """Our engine for Whisper on the files of this folder."""
    from edgeserve.engine import ModelSpec
    from edgeserve.engines.asr.onnx import OnnxSpeechToText
    from edgeserve.messages import Pcm, SegmentEvent, TranscribeRequest
    from edgeserve.models.convert import whisper
    from edgeserve.system import heap

    heap.tune()
    options = {"quantization": quantization}
    spec = ModelSpec("asr", "whisper", "", whisper.files_in(Path(model)), threads=int(threads), options=options)
    ours = OnnxSpeechToText(spec)
    ours.heat()

    def job(samples: Any) -> Iterator[str]:
        request = TranscribeRequest(Pcm(samples.tobytes()))
        return (one.text for one in ours.transcribe(request, threading.Event()) if isinstance(one, SegmentEvent))

    return job


def faster_whisper(checkpoint: str, threads: str, kind: str) -> Job:
    """Greedy, as ours: the same temperatures where the text repeats itself, and no search for speech beforehand."""
    from faster_whisper import WhisperModel

    model = WhisperModel(checkpoint, device="cpu", compute_type=kind, cpu_threads=int(threads))

    def job(samples: Any) -> Iterator[str]:
        segments, _ = model.transcribe(samples, language="en", beam_size=1, vad_filter=False)
        return (one.text for one in segments)

    return job


def faster_whisper_batched(checkpoint: str, threads: str, kind: str) -> Job:
    """Its pipeline for long sound, as it is by default: cut at silences by its own detector, 8 windows at once."""
    from faster_whisper import BatchedInferencePipeline, WhisperModel

    model = WhisperModel(checkpoint, device="cpu", compute_type=kind, cpu_threads=int(threads))
    pipeline = BatchedInferencePipeline(model)

    def job(samples: Any) -> Iterator[str]:
        segments, _ = pipeline.transcribe(samples, language="en", beam_size=1)
        return (one.text for one in segments)

    return job


def voice_engine(model: str, threads: str) -> Job:
    """Our engine for speech with the voice of this file."""
    from edgeserve.engine import ModelSpec
    from edgeserve.engines.tts.onnx import OnnxTextToSpeech
    from edgeserve.messages import SpeakRequest
    from edgeserve.system import heap

    heap.tune()
    ours = OnnxTextToSpeech(ModelSpec("tts", "hibari", "", {"model": Path(model)}, threads=int(threads)))
    ours.heat()

    def job(text: str) -> Iterator[float]:
        said = ours.speak(SpeakRequest(text), threading.Event())
        return (len(one.pcm) / 2 / one.sample_rate for one in said if one is not None)

    return job


def hibari(model: str, threads: str) -> Job:
    """The voice library itself, handed one sentence after the other."""
    from hibari import SAMPLE_RATE, Hibari

    voice = Hibari(model=model, threads=int(threads))
    return lambda text: (len(voice(one, seed=0)) / SAMPLE_RATE for one in voice.split_sentences(text))


JOBS = (engine, faster_whisper, faster_whisper_batched, voice_engine, hibari)
SIDES: dict[str, Callable[..., Job]] = {one.__name__: one for one in JOBS}


def timed(job: Job, wanted: Any) -> Answer:
    started, processor = time.perf_counter(), time.process_time()
    pieces = job(wanted)
    found = [next(pieces)]
    first = time.perf_counter() - started
    found += pieces
    seconds = time.perf_counter() - started
    answer = {"seconds": seconds, "processor": time.process_time() - processor, "first": first}
    whole: Any = "".join(found) if isinstance(found[0], str) else sum(found)
    return {**answer, "found": whole}


def record(text: str, path: str) -> None:
    """Say a text with the starter voice into a WAV of 16 kHz."""
    import numpy
    from faster_whisper import decode_audio
    from hibari import Hibari

    spoken = Path(path).with_suffix(".24k.wav")
    Hibari(threads=1).save(text, str(spoken), seed=0)
    samples = decode_audio(str(spoken), sampling_rate=16_000)
    spoken.unlink()
    with wave.open(path, "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes((numpy.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def main(arguments: list[str]) -> int:
    if arguments[0] == "record":
        record(*arguments[1:])
        return 0
    job = SIDES[arguments[0]](*arguments[1:])
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        wanted = samples_of(request["hear"]) if "hear" in request else request["say"]
        print(json.dumps(timed(job, wanted)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
