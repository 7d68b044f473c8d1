"""Whisper's windows, on a small multilingual model whose answers are written here."""

from __future__ import annotations

import dataclasses
import gc
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
from support import tiny_whisper

from edgeserve.engine import ModelSpec
from edgeserve.engines.asr.onnx import OnnxSpeechToText
from edgeserve.engines.asr.segments import FRAME
from edgeserve.engines.asr.stretches import Place, Stretch, whole
from edgeserve.engines.asr.whisper import passage as whisper_passage
from edgeserve.engines.asr.whisper import transcribe as whisper
from edgeserve.engines.asr.whisper.decode import Batch, Decoded, MayEnd
from edgeserve.engines.asr.whisper.joined import Joined
from edgeserve.engines.asr.whisper.onnx import WhisperOnnx
from edgeserve.engines.asr.whisper.parts import boundaries
from edgeserve.errors import ConfigError, InvalidRequest
from edgeserve.messages import Pcm, Rest, SegmentEvent, TranscribeRequest, TranscriptEnd, Word
from edgeserve.models.convert import whisper as convert

SECOND = 16_000
A, B = 1000, 2000
"""Text tokens."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("whisper")
    return dict(convert.convert(tiny_whisper.build(folder / "checkpoint"), folder / "converted"))


@pytest.fixture(scope="module")
def engine(files: dict[str, Path]) -> Iterator[OnnxSpeechToText]:
    """It reads windows one after the other."""
    yield from opened(files, 1)


@pytest.fixture(scope="module")
def together(files: dict[str, Path]) -> Iterator[OnnxSpeechToText]:
    """It decodes up to three windows together."""
    yield from opened(files, 3)


def opened(files: dict[str, Path], windows: int) -> Iterator[OnnxSpeechToText]:
    engine = OnnxSpeechToText(ModelSpec("asr", "tiny", "", files, threads=1, options={"windows": windows}))
    engine.heat()
    yield engine
    engine.close()


class Script:
    """A batch that gives written answers, in the order in which windows begin; floats are timestamps in seconds.

    It stands for ``Batch``. ``last_first``: the window that began last ends first, else all end in one step.
    """

    def __init__(self, engine: OnnxSpeechToText, *windows: Sequence[int | float], last_first: bool = False) -> None:
        self.first = engine._model._model.vocabulary.first_timestamp  # type: ignore[union-attr]
        self.windows = list(windows)
        self.last_first = last_first
        self.prompts: list[list[int]] = []
        self.mels: list[Any] = []
        self.may_end: list[list[bool]] = []
        self.most = 0
        self._begun: dict[int, Decoded] = {}

    def __call__(self, *given: object) -> Script:
        return self

    def listen(self, place: int, mel: Any) -> None:
        self.mels.append(mel)

    def audio(self, place: int) -> dict[str, Any]:
        return {}

    def begin(self, place: int, prompt: Sequence[int], temperature: float, may_end: MayEnd) -> None:
        self.prompts.append(list(prompt))
        said = self.windows.pop(0)
        self._begun[place] = Decoded(self.tokens(said), 0.0, -0.1, 0.0)
        self.most = max(self.most, len(self._begun))

    def tokens(self, said: Sequence[int | float]) -> tuple[int, ...]:
        return tuple(one if isinstance(one, int) else self.first + round(one / 0.02) for one in said)

    def step(self) -> list[tuple[int, Decoded]]:
        places = sorted(self._begun, reverse=True)
        return [(place, self._begun[place]) for place in (places[:1] if self.last_first else places)]

    def remove(self, place: int) -> None:
        last = max(self._begun)
        self._begun[place] = self._begun[last]
        del self._begun[last]

    def end(self) -> None:
        self._begun.clear()


def transcribe(engine: OnnxSpeechToText, seconds: float, **settings: Any) -> list[Any]:
    noise = numpy.random.default_rng(0).standard_normal(int(seconds * SECOND)).astype("<f4")
    request = TranscribeRequest(Pcm((0.1 * noise).tobytes()), **settings)
    return [event for event in engine.transcribe(request, threading.Event()) if event is not None]


def times(events: list[Any]) -> list[tuple[float, float]]:
    return [(round(one.start, 2), round(one.end, 2)) for one in events if isinstance(one, SegmentEvent)]


@pytest.mark.slow
def test_windows_move_on_by_their_last_timestamp_and_carry_the_text(
    engine: OnnxSpeechToText, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(engine, [0.0, A, 9.0, 9.0, B, 27.0, 27.0], [0.5, B, 13.0])
    monkeypatch.setattr(whisper, "Batch", script)
    events = transcribe(engine, 40.5, language="de")
    assert times(events) == [(0.0, 9.0), (9.0, 27.0), (27.0, 40.0)]
    assert events[-1] == TranscriptEnd("de", 40.5)
    assert (A in script.prompts[1], A in script.prompts[0]) == (True, False)


def quiet_at(*seconds: float) -> Any:
    """A split that hears speech in all of the audio but for a third of a second from each of these places on."""

    def split(arrays: Iterable[Any], place: Place) -> Iterator[Stretch]:
        samples = numpy.concatenate(list(arrays))
        at = numpy.arange(-(-len(samples) // FRAME)) * FRAME / SECOND
        voiced = ~numpy.any([(at >= one) & (at < one + 0.33) for one in seconds], axis=0)
        yield Stretch(0, samples, tuple(voiced.tolist()))

    return split


class Asking(Script):
    """Asks as each window begins whether these texts may end."""

    TEXTS = ((0.0, A, 8.0, 8.0), (0.0, A, 12.6, 12.6), (0.0, A, 20.0, 20.0), (0.0, A, 26.9, 26.9), (0.0, A, 8.0), (A,))

    def begin(self, place: int, prompt: Sequence[int], temperature: float, may_end: MayEnd) -> None:
        super().begin(place, prompt, temperature, may_end)
        self.may_end.append([may_end(self.tokens(text)) for text in self.TEXTS])


@pytest.mark.slow
def test_the_text_of_a_passage_may_not_end_before_its_speech(
    together: OnnxSpeechToText, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a pair of timestamps. Any other text has nothing left, or needs a window of its own for it."""
    script = Asking(together, [0.0, A, 26.9], [0.0, A, 12.7])
    monkeypatch.setattr(whisper, "Batch", script)
    monkeypatch.setattr(together._model, "_split", quiet_at(27.0))
    transcribe(together, 40.0, language="de")
    assert script.may_end == [[False, False, False, True, True, True], [False, True, True, True, True, True]]


@pytest.mark.slow
def test_a_window_that_another_follows_may_end_anywhere(
    engine: OnnxSpeechToText, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Asking(engine, [0.0, A, 28.0, 28.0], [0.0, A, 12.0])
    monkeypatch.setattr(whisper, "Batch", script)
    monkeypatch.setattr(engine._model, "_split", quiet_at(27.0))
    transcribe(engine, 40.0, language="de")
    assert script.may_end == [[True] * 6] * 2


@pytest.mark.slow
@pytest.mark.parametrize("places", ["engine", "together"])
def test_a_long_silence_gives_others_their_turn(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, places: str
) -> None:
    """Before the first words, between two windows, and behind the last words."""

    def split(arrays: Iterable[Any], place: Place) -> Iterator[Stretch | None]:
        samples = numpy.concatenate(list(arrays))
        for start in (0, 30 * SECOND):
            yield from (None,) * 7
            yield Stretch(start, samples[start : start + 30 * SECOND], (True,) * (30 * SECOND // FRAME))
        yield from (None,) * 7

    engine = request.getfixturevalue(places)
    monkeypatch.setattr(whisper, "Batch", Script(engine, *([0.0, A, 29.0],) * 4))
    monkeypatch.setattr(engine._model, "_split", split)
    sound = TranscribeRequest(Pcm(bytes(4 * 60 * SECOND)), language="de")
    told = list(engine.transcribe(sound, threading.Event()))
    assert told[:7] == [None] * 7
    assert told.count(None) >= 21
    assert times(told)
    assert isinstance(told[-1], TranscriptEnd)


class Counted(Script):
    """Texts of so many steps each, all of them ``unlikely`` or none, and the work since the last turn."""

    def __init__(self, engine: OnnxSpeechToText, steps: int, *, unlikely: bool) -> None:
        super().__init__(engine, *([0.0, A, 29.0],) * 50)
        self.steps, self.unlikely = steps, unlikely
        self.left: dict[int, int] = {}
        self.work: list[str] = []

    def listen(self, place: int, mel: Any) -> None:
        super().listen(place, mel)
        self.work.append("listen")

    def begin(self, place: int, prompt: Sequence[int], temperature: float, may_end: MayEnd) -> None:
        super().begin(place, prompt, temperature, may_end)
        self._begun[place] = dataclasses.replace(self._begun[place], avg_logprob=-2.0 if self.unlikely else -0.1)
        self.left[place] = self.steps
        self.work.append("begin")

    def step(self) -> list[tuple[int, Decoded]]:
        self.left = {place: left - 1 for place, left in self.left.items()}
        self.work.append("step")
        return [one for one in super().step() if not self.left[one[0]]]

    def remove(self, place: int) -> None:
        super().remove(place)
        self.left[place] = self.left[max(self.left)]
        del self.left[max(self.left)]


@pytest.mark.slow
@pytest.mark.parametrize("unlikely", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 100])
@pytest.mark.parametrize("places", ["engine", "together"])
def test_others_have_their_turn_behind_each_step(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, places: str, steps: int, unlikely: bool
) -> None:
    """A doubtful text is tried again and again: with turns between windows alone, others wait for all of it."""
    engine = request.getfixturevalue(places)
    script = Counted(engine, steps, unlikely=unlikely)
    monkeypatch.setattr(whisper, "Batch", script)
    monkeypatch.setattr(engine._model, "_split", whole)
    turns = []
    for _ in engine.transcribe(TranscribeRequest(Pcm(bytes(4 * 80 * SECOND)), language="de"), threading.Event()):
        turns.append(script.work)
        script.work = []
    assert {kind: max(one.count(kind) for one in turns) for kind in ("listen", "begin", "step")} == {
        "listen": 1, "begin": 1, "step": 1
    }  # fmt: skip
    assert sum(one.count("step") for one in turns) >= steps * (6 if unlikely else 1)


@pytest.mark.slow
@pytest.mark.parametrize("last_first", [False, True])
def test_long_audio_is_cut_at_silences_and_its_segments_come_in_order(
    together: OnnxSpeechToText, monkeypatch: pytest.MonkeyPatch, last_first: bool
) -> None:
    """Four passages for three places, whichever ends first. Each begins without the text of another one."""
    ends = (27.0, 52.0, 76.0)
    script = Script(together, *([0.0, A + number, 8.0] for number in range(4)), last_first=last_first)
    monkeypatch.setattr(whisper, "Batch", script)
    monkeypatch.setattr(together._model, "_split", quiet_at(*ends))
    *found, end = transcribe(together, 90.0, language="de")
    assert sorted(token for one in found for token in one.tokens if token < script.first) == [A, A + 1, A + 2, A + 3]
    starts = [one.start for one in found]
    assert starts == sorted(starts)
    assert starts == pytest.approx([0.0, *(one + 0.33 / 2 for one in ends)], abs=0.25)
    assert {len(prompt) for prompt in script.prompts} == {3}
    assert (script.most, end.duration) == (3, 90.0)


class InOrder(Script):
    """The window that began first ends first, each in a step of its own."""

    def __init__(self, engine: OnnxSpeechToText, *windows: Sequence[int | float]) -> None:
        super().__init__(engine, *windows)
        self.texts: list[tuple[int, ...]] = []

    def step(self) -> list[tuple[int, Decoded]]:
        place, said = min(self._begun.items(), key=lambda one: self.texts.index(one[1].tokens))
        return [(place, said)]

    def begin(self, place: int, prompt: Sequence[int], temperature: float, may_end: MayEnd) -> None:
        super().begin(place, prompt, temperature, may_end)
        self.texts.append(self._begun[place].tokens)


@pytest.mark.slow
def test_a_timestamp_behind_its_passage_loses_nothing_of_the_next(
    together: OnnxSpeechToText, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer goes on behind a rest, and begins three passages at a time: none of the next ones was heard yet."""
    size, most = 25 * SECOND // FRAME, 8

    def split(arrays: Iterable[Any], place: Place) -> Iterator[Stretch]:
        samples = numpy.concatenate([numpy.zeros(place.at, numpy.float32), *arrays])
        for start in range(place.at, len(samples), size * FRAME):
            yield Stretch(start, samples[start : start + size * FRAME], (True,) * (size - 10) + (False,) * 10)

    monkeypatch.setattr(together._model, "_split", split)
    sound = TranscribeRequest(Pcm(bytes(4 * most * size * FRAME)), language="de")
    texts = [[0.0, A + number, 29.9, 29.9] for number in range(20)]
    monkeypatch.setattr(whisper, "Batch", InOrder(together, *texts))
    rest = next(one for one in together.transcribe(sound, threading.Event()) if isinstance(one, Rest))
    script = InOrder(together, *texts)
    monkeypatch.setattr(whisper, "Batch", script)
    *_, end = together.transcribe(dataclasses.replace(sound, rest=rest), threading.Event())
    assert end == TranscriptEnd("de", most * size * FRAME / SECOND)
    assert len(script.mels) == most - 3, "three were told in front of the first rest"


@pytest.mark.slow
def test_speech_after_the_last_timestamp_of_a_passage_is_heard_with_its_text(
    together: OnnxSpeechToText, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(together, [0.0, A, 9.0, 9.0], [0.0, B, 5.0], [0.0, A, 15.0])
    monkeypatch.setattr(whisper, "Batch", script)
    monkeypatch.setattr(together._model, "_split", quiet_at(27.0))
    *found, _ = transcribe(together, 40.0, language="de")
    assert [tuple(token for token in one.tokens if token < script.first) for one in found] == [(A,), (A,), (B,)]
    assert [one.start for one in found] == pytest.approx([0.0, 9.0, 27.2], abs=0.2)
    assert [A in prompt for prompt in script.prompts] == [False, False, True]


@pytest.mark.slow
def test_a_time_behind_a_passage_takes_nothing_from_the_next_one(
    together: OnnxSpeechToText, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third of three passages that begin together says that it ends at 77 s, a second behind its end."""
    ends = (27.0, 52.0, 76.0, 101.0)
    third = [0.0, A, 9.0, 9.0], [0.0, A, 16.0, 16.0]
    script = Script(together, [0.0, A, 8.0], [0.0, A, 8.0], *third, [0.0, B, 24.0], [0.0, B, 18.0])
    monkeypatch.setattr(whisper, "Batch", script)
    monkeypatch.setattr(together._model, "_split", quiet_at(*ends))
    known = {"detector": None, "at": 0, "language": "de"}
    *found, end = transcribe(together, 120.0, rest=Rest(0, state=json.dumps(known).encode()))
    assert [one.start for one in found] == pytest.approx([0.0, 27.2, 52.2, 61.2, 76.2, 101.2], abs=0.25)
    assert (found[-1].end, end.duration) == (pytest.approx(119.2, abs=0.25), 120.0)


@pytest.mark.slow
@pytest.mark.parametrize("places", ["engine", "together"])
def test_an_answer_that_ends_early_leaves_no_arrays(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, places: str
) -> None:
    """One that rests or is cancelled. While a worker rests, nothing collects cycles: its next answer found no room."""
    engine = request.getfixturevalue(places)
    monkeypatch.setattr(engine._model, "_split", quiet_at(27.0, 52.0))
    gc.collect()
    gc.disable()
    try:
        answer = engine.transcribe(TranscribeRequest(Pcm(bytes(4 * 80 * SECOND)), language="de"), threading.Event())
        for _ in range(40):
            next(answer)
        assert [one for one in gc.get_objects() if isinstance(one, Batch)]
        answer.close()
        assert not [one for one in gc.get_objects() if isinstance(one, Joined | Batch)]
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize(("translate", "task"), [(True, "translate"), (False, "transcribe")])
def test_a_translation_is_asked_for_by_its_token(
    engine: OnnxSpeechToText, monkeypatch: pytest.MonkeyPatch, translate: bool, task: str
) -> None:
    script = Script(engine, [0.0, A, 2.0])
    monkeypatch.setattr(whisper, "Batch", script)
    transcribe(engine, 2.0, language="fr", translate=translate)
    assert script.prompts[0][-2:] == [tiny_whisper.special("fr"), tiny_whisper.special(task)]


def test_a_language_the_model_lacks_is_refused(engine: OnnxSpeechToText) -> None:
    with pytest.raises(InvalidRequest, match="unknown language 'tlh'") as caught:
        transcribe(engine, 2.0, language="tlh")
    assert caught.value.param == "language"


def test_a_segment_over_a_long_silence_is_parted_by_its_words(
    engine: OnnxSpeechToText, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seconds of the file from 10 s on, and two from 100 s on."""
    voiced = [False] * 12 + [True] * 40 + [False] * 12

    def split(arrays: Iterable[Any], place: Place) -> Iterator[Stretch]:
        samples = numpy.concatenate(list(arrays))
        for second in (10, 100):
            start = second * SECOND // FRAME * FRAME
            yield Stretch(start, samples[start : start + 64 * FRAME], voiced)

    said = [(Word(0.2, 1.5, " aa."), 1), (Word(1.5, 3.8, " bb"), 1)]
    monkeypatch.setattr(whisper, "Batch", Script(engine, [0.0, A, B, 4.0], [0.0, A, B, 4.0]))
    monkeypatch.setattr(whisper_passage, "time_words", lambda *given: said)
    monkeypatch.setattr(engine._model, "_split", split)
    *parts, end = transcribe(engine, 103.0, language="en")
    assert times(parts) == [(10.37, 11.65), (100.38, 101.66)]
    assert [(one.text, one.tokens, one.words) for one in parts] == [(" aa.", (A,), ()), (" bb", (B,), ())]
    assert end.duration == 103.0
    *parts, end = transcribe(engine, 103.0, language="en", word_timestamps=True)
    assert [[word.text for word in one.words] for one in parts] == [[" aa."], [" bb"]]
    assert parts[1].words[0].start == pytest.approx(100.38, abs=0.01)


def test_a_clause_ends_at_a_pause_that_its_words_are_near() -> None:
    timed = [
        (Word(0.0, 1.0, " a"), 1),
        (Word(1.0, 2.2, " b."), 1),
        (Word(2.2, 3.0, " c"), 1),
        (Word(3.0, 4.0, " d."), 1),
    ]
    assert boundaries(timed, [3 * SECOND]) == [2], "at 2.2 a clause ends, at 3.0 none"
    assert boundaries(timed, [SECOND // 2, 4 * SECOND]) == [0, 4]
    assert boundaries(timed, []) == []


def test_the_detector_can_be_left_out(files: dict[str, Path], tmp_path: Path) -> None:
    missing = {**files, "vad": tmp_path / "none.onnx"}
    assert WhisperOnnx(ModelSpec("asr", "tiny", "", missing, options={"vad": False})).detector() is None
    with pytest.raises(ConfigError, match="vad = 'no': expected true or false"):
        WhisperOnnx(ModelSpec("asr", "tiny", "", missing, options={"vad": "no"})).detector()
