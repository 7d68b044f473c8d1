"""hibari through the contract, and what only a real voice shows."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from support.contract import TextToSpeechContract, resumed, told
from support.speech import STORY

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engines.onnx import prepare
from edgeserve.engines.tts import hibari, onnx
from edgeserve.engines.tts.onnx import OnnxTextToSpeech
from edgeserve.engines.tts.stream import computed_ahead, growing
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import Rest, SpeakRequest

Pulled = Callable[[str], Mapping[str, Path]]


@pytest.mark.models
class TestHibari(TextToSpeechContract):
    make = OnnxTextToSpeech

    @pytest.fixture
    def spec(self, pulled: Pulled) -> ModelSpec:
        files = pulled("hibari")
        return ModelSpec("tts", "hibari", "edgeserve.engines.tts.onnx:OnnxTextToSpeech", files, threads=2)

    def test_the_audio_is_that_of_the_package(self, hot: Any) -> None:
        """The same graph in our session gives the samples that hibari's own class gives, all but the noise."""
        from hibari import Hibari

        text = "The quick brown fox jumps over the lazy dog."
        ours = b"".join(event.pcm for event in hot.speak(SpeakRequest(text), threading.Event()))
        theirs = Hibari(threads=2)(text, seed=hibari.SEED)
        got = numpy.frombuffer(ours, "<i2") / 32767.0
        assert len(got) == len(theirs)
        assert numpy.corrcoef(got, theirs)[0, 1] > 0.999

    def test_prepared_or_not_it_sounds_the_same(self, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch) -> None:
        text = SpeakRequest("The quick brown fox jumps over the lazy dog.")
        spec = dataclasses.replace(spec, threads=1)  # a busy machine would change their number between the two
        engine = OnnxTextToSpeech(spec)
        engine.heat()
        prepared = b"".join(event.pcm for event in engine.speak(text, threading.Event()))
        engine.close()
        monkeypatch.setattr(hibari, "prepared", lambda path, **how: prepare.Prepared(path, (), "original"))
        engine = OnnxTextToSpeech(spec)
        engine.heat()
        original = b"".join(event.pcm for event in engine.speak(text, threading.Event()))
        engine.close()
        got, wanted = (numpy.frombuffer(one, "<i2").astype(int) for one in (prepared, original))
        assert len(got) == len(wanted)
        assert abs(got - wanted).max() <= 2

    @pytest.mark.parametrize("text", ["", "  \n", "你好"])
    def test_unspeakable_text_is_refused(self, hot: Any, text: str) -> None:
        with pytest.raises(InvalidRequest, match="nothing that can be spoken") as caught:
            list(hot.speak(SpeakRequest(text), threading.Event()))
        assert caught.value.param == "text"
        assert hot.rung is Rung.HOT

    @pytest.mark.parametrize("text", ["...", "🙂🙂", "👍🏽\n"])
    def test_signs_alone_are_a_short_silence(self, hot: Any, text: str) -> None:
        events = [event for event in hot.speak(SpeakRequest(text), threading.Event()) if event is not None]
        assert [(not any(one.pcm), len(one.pcm) / 2 / one.sample_rate) for one in events] == [(True, 0.2)]

    @pytest.mark.parametrize("speed", [0.1, 5.0])
    def test_speed_out_of_range(self, hot: Any, speed: float) -> None:
        with pytest.raises(InvalidRequest, match=r"between 0\.25 and 4\.0") as caught:
            list(hot.speak(SpeakRequest("Hello.", speed=speed), threading.Event()))
        assert caught.value.param == "speed"

    @pytest.mark.parametrize(
        "text",
        [
            "abcdefghij" * 1_000,
            "the number is " + "7" * 60,
            "🙂 and 漢字",
            "ab-" * 100,
            "A sentence without an end " * 40,
            "https://example.com/" + "a/" * 100,
        ],
        ids=["no spaces", "sixty digits", "emoji", "hyphens", "endless", "address"],
    )
    def test_odd_text_is_spoken_piece_by_piece(self, hot: Any, text: str) -> None:
        """Each piece takes bounded time, so the first three tell enough."""
        events = list(itertools.islice(hot.speak(SpeakRequest(text), threading.Event()), 3))
        assert all(0.2 < _seconds(event) < 25 for event in events)

    def test_a_long_sentence_comes_in_pieces_that_add_up(self, hot: Any) -> None:
        clause = "and the little boat went on across the water"
        once = sum(map(_seconds, hot.speak(SpeakRequest(f"{clause}."), threading.Event())))
        events = list(hot.speak(SpeakRequest(", ".join([clause] * 20) + "."), threading.Event()))
        assert len(events) > 3
        assert sum(map(_seconds, events)) == pytest.approx(20 * once, rel=0.2)

    def test_an_answer_that_rests_has_the_samples_of_one_that_does_not(self, spec: ModelSpec) -> None:
        """With one thread, since another number of threads rounds otherwise. Marks and emoji say nothing."""
        engine = OnnxTextToSpeech(dataclasses.replace(spec, threads=1))
        engine.heat()
        text = STORY + " 🙂 ☎ … " + " ".join(["She asked Dr. Smith about it, and he said No. 5 was fine."] * 8) + "\n🙂"
        cancel, rests = threading.Event(), list[Rest]()

        def answer(request: SpeakRequest) -> Iterator[Any]:
            for event in engine.speak(request, cancel):
                rests.extend([event] if isinstance(event, Rest) else ())
                yield event

        whole = b"".join(event.pcm for event in told(engine.speak(SpeakRequest(text), cancel)))
        assert b"".join(event.pcm for event in resumed(answer, SpeakRequest(text))) == whole
        assert len(rests) >= 3
        assert [one.at for one in rests] == sorted({one.at for one in rests})

    def test_samples_are_sound_and_not_clipped(self, hot: Any) -> None:
        voice = hot._voice
        for piece in voice.pieces(STORY, "heart", voice.max_phonemes):
            samples = numpy.concatenate([one.copy() for one in voice.say(piece, "heart", 1.0)])
            assert numpy.isfinite(samples).all()
            assert (abs(samples) >= 1.0).mean() < 1e-4
            assert 0.01 < numpy.sqrt((samples**2).mean()) < 0.3

    def test_slow_speech_comes_in_shorter_pieces_of_text(self, hot: Any) -> None:
        """So a piece never takes more memory than at speed 1. Beyond 0.5 the network knows no slower."""
        text = "and the little boat went on across the water " * 10
        voice = hot._voice
        longest = {
            speed: max(
                sum(map(len, voice.say(piece, "heart", speed)))
                for piece in voice.pieces(text, "heart", int(voice.max_phonemes * speed))
            )
            for speed in (1.0, 0.5)
        }
        assert longest[0.5] < 1.3 * longest[1.0]
        slow, slower = (
            sum(map(_seconds, hot.speak(SpeakRequest("Good morning.", speed=speed), threading.Event())))
            for speed in (0.5, 0.25)
        )
        assert slow == slower

    def test_cancel_ends_between_blocks(self, hot: Any) -> None:
        """Long before the sentence is over."""
        cancel = threading.Event()
        events = hot.speak(SpeakRequest(STORY), cancel)
        first = next(events)
        cancel.set()
        assert list(events) == []
        assert _seconds(first) < 0.6

    def test_sound_begins_with_a_short_event_and_goes_on_with_longer_ones(self, hot: Any) -> None:
        (piece,) = hot._voice.pieces("the little boat went on across the water " * 3, "heart", 200)
        whole = sum(map(len, hot._voice.say(piece, "heart", 1.0)))
        events = list(hot.speak(SpeakRequest("the little boat went on across the water " * 3), threading.Event()))
        seconds = [_seconds(event) for event in events]
        assert sum(seconds) == pytest.approx(whole / 24_000)
        assert seconds[0] == 0.475
        assert seconds[:3] == sorted(seconds[:3])
        assert len(events) <= 6
        assert max(seconds) <= 2.5

    def test_cancel_before_the_start_is_no_error(self, hot: Any) -> None:
        cancel = threading.Event()
        cancel.set()
        assert list(hot.speak(SpeakRequest("Hello."), cancel)) == []

    def test_a_british_voice(self, spec: ModelSpec) -> None:
        """The same network under a British voice's name: another accent's phonemes, and so other audio."""
        engine = OnnxTextToSpeech(dataclasses.replace(spec, files={**spec.files, "emma": spec.files["model"]}))
        assert engine.voices() == ("heart", "emma")
        engine.open()
        engine.heat()
        american, british = (
            b"".join(
                event.pcm
                for event in engine.speak(SpeakRequest("The father had a bath.", voice=name), threading.Event())
            )
            for name in engine.voices()
        )
        engine.close()
        assert american != british
        assert 0.7 < len(american) / len(british) < 1.4

    def test_a_word_no_lexicon_knows_is_spoken(self, hot: Any) -> None:
        assert list(hot.speak(SpeakRequest("Zorblaxian."), threading.Event()))

    def test_warm_is_a_rung_of_its_own(self, engine: Any) -> None:
        engine.open()
        assert engine.rung is Rung.WARM
        engine.heat()
        voice = engine._voice
        engine.park()
        assert engine.rung is Rung.WARM
        assert engine._voice is voice
        with pytest.raises(EngineFailure, match="hibari is warm, not hot"):
            list(engine.speak(SpeakRequest("Hello."), threading.Event()))

    @pytest.mark.skipif(sys.platform != "linux", reason="resident pages of a mapping are told by Linux only")
    def test_no_page_of_tables_and_weights_is_resident_when_warm(self, alone: Any) -> None:
        engine = alone
        mapped = engine.estimate().mapped
        engine.open()
        assert engine.footprint().mapped == 0
        engine.heat()
        assert engine.footprint().mapped == pytest.approx(mapped, rel=0.01)
        engine.park()
        assert engine.footprint().mapped == 0
        assert engine.footprint().private > 0

    def test_once_prepared_it_opens_without_another_process(
        self, spec: ModelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = Path(shutil.copy(spec.files["model"], tmp_path / "model.onnx"))
        engine = OnnxTextToSpeech(dataclasses.replace(spec, files={"model": model}))
        told: list[tuple[int, int]] = []
        onnx.prepare(engine.spec, lambda done, total: told.append((done, total)))
        assert told == [(1, 3), (2, 3), (3, 3)]
        monkeypatch.setattr("subprocess.run", None)
        engine.open()
        assert {path.suffix for path in engine._voice.mapped} == {".words", ".data"}
        engine.close()

    def test_where_nothing_can_be_prepared_the_audio_is_the_same(
        self, hot: Any, spec: ModelSpec, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = Path(shutil.copy(spec.files["model"], tmp_path / "model.onnx"))
        (tmp_path / "prepared").write_text("not a folder", encoding="utf-8")
        engine = OnnxTextToSpeech(dataclasses.replace(spec, files={"model": model}))
        engine.open()
        engine.heat()
        assert "model.onnx is used as it is" in caplog.text
        assert engine.footprint().mapped == 0
        ours, theirs = (list(one.speak(SpeakRequest("Hello there."), threading.Event())) for one in (engine, hot))
        engine.close()
        assert ours == theirs

    def test_tables_are_kept_beside_the_model(self, hot: Any, spec: ModelSpec) -> None:
        folder = spec.files["model"].parent / "prepared" / "hibari-tts-0.2.1"
        assert {path.name for path in folder.glob("*.words")} >= {"tagger.words", "lexicon_us.words"}


def _seconds(event: Any) -> float:
    return len(event.pcm) / 2 / event.sample_rate


def spec_of(path: Path, **options: object) -> ModelSpec:
    return ModelSpec("tts", "x", "edgeserve.engines.tts.onnx:OnnxTextToSpeech", {"model": path}, options=options)


@pytest.mark.slow
def test_a_file_that_is_no_graph(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"not a graph")
    engine = OnnxTextToSpeech(spec_of(path))
    with pytest.raises(EngineFailure, match=r"model\.onnx"):
        engine.open()
    assert engine.rung is Rung.COLD


def test_an_unknown_family_names_the_known(tmp_path: Path) -> None:
    engine = OnnxTextToSpeech(spec_of(tmp_path / "m", family="robot"))
    for ask in (engine.open, engine.estimate):
        with pytest.raises(EngineFailure, match="known: hibari"):
            ask()


def test_what_cannot_be_prepared_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told: list[int] = []
    spec = spec_of(tmp_path / "m", family="robot")
    onnx.prepare(spec, lambda done, total: told.append(done))
    assert told == []
    assert "x is not prepared: unknown voice family 'robot'" in caplog.text
    assert list(OnnxTextToSpeech(spec).prefetch_files()) == [tmp_path / "m"]


def test_a_model_without_files_is_refused() -> None:
    engine = OnnxTextToSpeech(ModelSpec("tts", "x", "", {}))
    with pytest.raises(EngineFailure, match="has no files"):
        engine.open()
    assert list(engine.prefetch_files()) == []


def test_a_missing_phonemizer_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "hibari", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineFailure, match="pip install hibari-tts"):
        OnnxTextToSpeech(spec_of(tmp_path / "m")).open()


def test_no_piece_is_begun_after_a_cancel() -> None:
    """Each of these is too long to be made beside another."""
    cancel, begun = threading.Event(), list[str]()

    def say(piece: str, beside: bool) -> Iterator[Any]:
        begun.append(piece)
        return iter([b"a", b"b"])

    pieces = iter(["a" * 150, "b" * 150, "c" * 150])
    said = computed_ahead(lambda: next(pieces, None), say, 200, cancel)
    assert [next(said), next(said), next(said)] == [b"a", b"b", None]
    cancel.set()
    assert list(said) == []
    assert len(begun) == 1


def test_a_piece_knows_whether_samples_of_another_are_computed_meanwhile() -> None:
    """The last piece is too long to be made beside the one before."""
    seen, pieces = list[tuple[str, bool]](), iter(["a", "b", "c" * 200])

    def say(piece: str, beside: bool) -> Iterator[Any]:
        seen.append((piece[0], beside))
        return iter([b""])

    assert list(computed_ahead(lambda: next(pieces, None), say, 200, threading.Event())) == [b"", None] * 3
    assert seen == [("a", False), ("b", True), ("c", False)]


def test_events_grow_over_a_text_and_end_with_its_pieces() -> None:
    block = numpy.zeros(12_000, numpy.float32)
    lengths = [pcm and len(pcm) / 24_000 for pcm in growing([block] * 5 + [None] + [block] * 3 + [None])]
    assert lengths == [1, 2, 2, None, 3, None]


def test_a_piece_that_says_nothing_makes_no_sound() -> None:
    pieces, block = iter(["", "a", "", ""]), numpy.zeros(10, numpy.float32)
    said = computed_ahead(lambda: next(pieces, None), lambda piece, beside: iter([block]), 200, threading.Event())
    assert [pcm and len(pcm) for pcm in growing(said)] == [None, 20, None, None, None]


class Silent:
    """A voice whose text says nothing, however long it is."""

    sample_rate, max_phonemes = 24_000, 200

    def __init__(self) -> None:
        self.read = 0

    @staticmethod
    def voices(spec: ModelSpec) -> list[str]:
        return ["heart"]

    @staticmethod
    def parts(voice: str) -> list[str]:
        return [voice]

    def pieces(self, text: str, voice: str, limit: int) -> Iterator[str]:
        for _ in text:
            self.read += 1
            yield ""


def test_a_cancel_is_heard_within_a_text_that_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"")
    engine, voice, cancel = OnnxTextToSpeech(spec_of(tmp_path / "m")), Silent(), threading.Event()
    engine._voice, engine._hot = voice, True  # type: ignore[assignment]
    events = engine.speak(SpeakRequest("." * 10_000), cancel)
    assert next(events) is None  # others may have their turn
    cancel.set()
    assert list(events) == []
    assert voice.read <= 4
    with pytest.raises(InvalidRequest, match="nothing that can be spoken"):
        list(engine.speak(SpeakRequest("x" * 50), threading.Event()))
