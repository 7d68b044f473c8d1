"""Transcripts with speakers, through OpenAI's client."""

from __future__ import annotations

import base64
import json
import struct
import wave
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import openai
import pytest
from openai import OpenAI
from support.gates import FAKES
from support.server import Running, fake_pool, serving

from edgeserve.api.openai.audio import Transcription
from edgeserve.api.sound.diarized import DiarizedEvents
from edgeserve.api.sound.speakers import Speakers
from edgeserve.engine import Cancel, Rung
from edgeserve.engines.fake.engine import FakeSpeechToText
from edgeserve.jobs import JOBS
from edgeserve.messages import SegmentEvent, SpeakerEvent, TranscribeEvent, TranscribeRequest, TranscriptEnd, Word

SEGMENT = "transcript.text.segment"
ANN, BOB, EVE = 0.25, 0.5, 0.75


def said(*voices: float) -> bytes:
    """A WAV file with a second of each voice, as the fakes tell voices apart; 0 is silence."""
    out = BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        for one in voices:
            file.writeframes(struct.pack("<h", round(one * 32768)) * 16_000)
    return out.getvalue()


def reference(*voices: float) -> str:
    return f"data:audio/wav;base64,{base64.b64encode(said(*voices)).decode()}"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(fake_pool((*JOBS, "speaker"))) as running:
        yield running


def client(running: Running) -> OpenAI:
    return OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0)


@pytest.fixture
def ai(running: Running) -> Iterator[OpenAI]:
    with client(running) as ai:
        yield ai


def transcribe(ai: OpenAI, sound: bytes, form: str = "diarized_json", **settings: Any) -> Any:
    settings.setdefault("chunking_strategy", "auto")
    return ai.audio.transcriptions.create(model="asr", file=("talk.wav", sound), response_format=form, **settings)  # type: ignore[call-overload]


def test_each_segment_has_its_speaker(ai: OpenAI) -> None:
    answer = transcribe(ai, said(ANN, BOB, 0, ANN))
    assert (answer.task, answer.duration, answer.text) == ("transcribe", 4.0, "1 2 4")
    assert [one.to_dict() for one in answer.segments] == [
        {"type": SEGMENT, "id": f"seg_{number}", "start": at, "end": at + 1.0, "speaker": who, "text": text}
        for number, (at, who, text) in enumerate([(0.0, "A", "1"), (1.0, "B", "2"), (3.0, "A", "4")], start=1)
    ]
    assert answer.usage.to_dict() == {"type": "duration", "seconds": 4}


def test_as_events(ai: OpenAI) -> None:
    with transcribe(ai, said(ANN, BOB), stream=True) as stream:
        events = list(stream)
    assert [one.type for one in events] == [
        *["transcript.text.delta", SEGMENT] * 2,
        "transcript.text.done",
    ]
    assert [(one.delta, one.segment_id) for one in events[:4:2]] == [("1", "seg_1"), (" 2", "seg_2")]
    assert [(one.id, one.speaker, one.text, one.start, one.end) for one in events[1:4:2]] == [
        ("seg_1", "A", "1", 0.0, 1.0),
        ("seg_2", "B", "2", 1.0, 2.0),
    ]
    assert (events[-1].text, events[-1].usage.to_dict()) == ("1 2", {"type": "duration", "seconds": 2})


@pytest.mark.parametrize(
    ("texts", "deltas"),
    [
        ((" Hi.", " Yes?"), ["Hi.", " Yes?"]),
        (("はい。", "いいえ。"), ["はい。", "いいえ。"]),
        ((" 是", "的 "), ["是", "的 "]),
    ],
)
def test_the_deltas_joined_are_the_text(texts: tuple[str, str], deltas: list[str]) -> None:
    """Languages without spaces got one between two segments."""
    events = DiarizedEvents(Speakers([SpeakerEvent(0, 1, 0), SpeakerEvent(1, 2, 1)], ()))
    sent = b"".join(events.feed(0, SegmentEvent(at, at + 1.0, text)) for at, text in enumerate(texts))
    told = [json.loads(line.removeprefix("data: ")) for line in (sent + events.end()).decode().splitlines() if line]
    assert [one["delta"] for one in told if one["type"] == "transcript.text.delta"] == deltas
    assert told[-1]["text"] == "".join(deltas).strip()


def test_known_speakers_have_their_names(ai: OpenAI) -> None:
    known = {"known_speaker_names": ["Bob", "Eve"], "known_speaker_references": [reference(BOB, BOB), reference(EVE)]}
    answer = transcribe(ai, said(ANN, BOB, 0.1), **known)
    assert [one.speaker for one in answer.segments] == ["A", "Bob", "B"]


def test_the_segments_of_verbose_json_name_their_speakers_where_asked(ai: OpenAI) -> None:
    found = transcribe(ai, said(ANN, BOB), "verbose_json", extra_body={"diarize": "true"}).to_dict()
    assert [one["speaker"] for one in found["segments"]] == ["A", "B"]
    known = {"known_speaker_names": ["Bob"], "known_speaker_references": [reference(BOB)]}
    found = transcribe(ai, said(ANN, BOB), "verbose_json", **known).to_dict()
    assert [one["speaker"] for one in found["segments"]] == ["A", "Bob"]
    assert "speaker" not in transcribe(ai, said(ANN), "verbose_json").to_dict()["segments"][0]


def test_words_alone_come_with_the_segments_that_name_their_speakers(ai: OpenAI) -> None:
    alone: dict[str, Any] = {"timestamp_granularities": ["word"], "extra_body": {"diarize": "true"}}
    found = transcribe(ai, said(ANN, BOB), "verbose_json", **alone).to_dict()
    assert [one["speaker"] for one in found["segments"]] == ["A", "B"]


def test_silence_has_neither_words_nor_speakers(ai: OpenAI) -> None:
    assert transcribe(ai, said(0, 0)).segments == []


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "fewer recordings than names": (
        {"known_speaker_names": ["Bob", "Eve"], "known_speaker_references": [reference(BOB)]},
        "known_speaker_references",
        "has 1 recordings for 2 names",
    ),
    "two of one name": (
        {"known_speaker_names": ["Bob"] * 2, "known_speaker_references": [reference(BOB)] * 2},
        "known_speaker_names",
        "each name is different",
    ),
    "too many": (
        {"known_speaker_names": list("abcde"), "known_speaker_references": [reference(BOB)] * 5},
        "known_speaker_names",
        "has 5 entries; the limit is 4",
    ),
    "an address": (
        {"known_speaker_names": ["Bob"], "known_speaker_references": ["https://example.com/bob.wav"]},
        "known_speaker_references[0]",
        "not base64",
    ),
    "no sound": (
        {"known_speaker_names": ["Bob"], "known_speaker_references": ["data:audio/wav;base64,aGVsbG8="]},
        "known_speaker_references[0]",
        "",
    ),
    "a long one": (
        {"known_speaker_names": ["Bob"], "known_speaker_references": [reference(*[BOB] * 11)]},
        "known_speaker_references[0]",
        "10",
    ),
    "silence": (
        {"known_speaker_names": ["Bob"], "known_speaker_references": [reference(0)]},
        "known_speaker_references",
        "recording 0 holds no speech",
    ),
    "another form": (
        {"form": "srt", "extra_body": {"diarize": "true"}},
        "response_format",
        "diarized_json or verbose_json",
    ),
    "a stream of another form": ({"form": "verbose_json", "stream": True}, "response_format", "where stream is true"),
}


@pytest.mark.parametrize(("settings", "param", "told"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_is_refused_by_name(ai: OpenAI, settings: dict[str, Any], param: str, told: str) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        transcribe(ai, said(ANN), **settings)
    assert 400 <= caught.value.status_code < 500
    assert caught.value.body["param"] == param  # type: ignore[index]
    assert told in caught.value.message


def test_a_reference_of_ten_seconds_of_uncompressed_stereo_fits_in_its_field() -> None:
    assert Transcription.PART_BYTES > 10 * 48_000 * 2 * 2 * 4 / 3


def test_without_a_model_the_answer_says_how_to_get_one() -> None:
    with serving(fake_pool()) as running, client(running) as ai:
        with pytest.raises(openai.APIStatusError) as caught:
            transcribe(ai, said(ANN))
        assert running.pool.gates["asr"].rung is Rung.COLD
    assert all(word in caught.value.message for word in ("edgeserve pull resemblyzer", "[speaker]"))


def test_a_segment_of_two_speakers_is_cut_between_words() -> None:
    class Wordy(FakeSpeechToText):
        def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent]:
            assert request.word_timestamps
            assert not request.words_required
            words = Word(0.1, 0.6, " Who"), Word(0.7, 0.9, " then?"), Word(1.1, 1.4, " Me.")
            yield SegmentEvent(0.1, 1.4, " Who then? Me.", words=words)
            yield TranscriptEnd("en", 2.0)

    with serving(fake_pool(("asr", "speaker"), fakes=FAKES | {"asr": Wordy})) as running, client(running) as ai:
        answer = transcribe(ai, said(ANN, BOB))
    assert answer.text == "Who then? Me."
    assert [(one.speaker, one.text, one.start, one.end) for one in answer.segments] == [
        ("A", "Who then?", 0.1, 0.9),
        ("B", "Me.", 1.1, 1.4),
    ]
