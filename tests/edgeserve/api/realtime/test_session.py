"""The state machine of a session, by rules that hold for any order of events."""

from __future__ import annotations

import base64
import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.sound import silence, speech

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.realtime import buffer, commands
from edgeserve.api.realtime.config import Config
from edgeserve.api.realtime.session import Session
from edgeserve.api.realtime.work import Answer, Detect, Draft, Overhear, Settle, Stop, Undraft, Warm
from edgeserve.errors import EdgeserveError, EngineFailure, InvalidRequest
from edgeserve.messages import FinishEvent, SpeechChances, ToolCall
from edgeserve.talk.detection import FRAME_BYTES
from edgeserve.talk.forms import FORMS


class Client:
    """A session with the client's and the engines' side of it."""

    def __init__(self, *, detects: bool = False, **change: Any) -> None:
        numbers = itertools.count(1)
        self.able = detects
        config = Config.new(Limits())
        self.session = Session(
            config.changed(change, Limits()),
            Limits(),
            make_id=lambda kind: f"{kind}_{next(numbers)}",
            detects=lambda config: self.able,
        )
        self.session.begin()

    def send(self, kind: str, **fields: Any) -> list[str]:
        """Types of the events that answer."""
        start = len(self.session.out)
        given = Fields({"type": kind, **fields})
        try:
            command = self.session.read(given)
            if isinstance(command, commands.Append):
                for piece in self.session.pieces(command):
                    self.session.hear(piece)
            else:
                self.session.take(command)
        except EdgeserveError as error:
            self.session.fail(error)
        return [one["type"] for one in self.session.out[start:]]

    def hear(self, *sounds: bytes) -> list[str]:
        start = len(self.session.out)
        for sound in sounds:
            for at in range(0, len(sound), 6_400):
                self.session.hear(sound[at : at + 6_400])
        return [one["type"] for one in self.session.out[start:]]

    def work(self, kind: type[Any]) -> list[Any]:
        return [one for one in self.session.work if isinstance(one, kind)]

    @property
    def error(self) -> Any:
        return self.session.out[-1]["error"]


def user(text: str = "hello") -> Any:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def turn(**detection: Any) -> Any:
    return {"input": {"turn_detection": detection}}


COMMITTED = ["input_audio_buffer.committed", "conversation.item.added", "conversation.item.done"]
SPOKEN = ["input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", *COMMITTED]


def test_a_turn_and_the_work_of_it() -> None:
    client = Client()
    assert client.hear(silence(0.5), speech(1), silence(1)) == SPOKEN
    kinds = [type(one) for one in client.session.work]
    assert kinds == [Warm, Draft, Settle]
    settle = client.work(Settle)[0]
    assert settle.drafted
    client.session.transcribed(settle.item, "one two", 1.5)
    assert [type(one) for one in client.session.work[3:]] == [Answer]
    assert client.session.out[-1]["type"] == "response.created"


def test_noise_without_words_is_not_answered() -> None:
    client = Client()
    client.hear(speech(1), silence(1))
    client.session.transcribed(client.work(Settle)[0].item, "", 1.5)
    assert client.work(Answer) == []


def judged(client: Client, chance: float) -> list[str]:
    """Types of the events after a verdict on the sound that waits: the same for all its frames."""
    start = len(client.session.out)
    question = client.session.buffer.question()
    assert question is not None
    frames = len(question.samples) // FRAME_BYTES
    client.session.detected(question, SpeechChances((chance,) * frames, b"state"))
    return [one["type"] for one in client.session.out[start:]]


def test_a_detector_begins_and_ends_turns() -> None:
    client = Client(detects=True)
    assert client.hear(silence(0.5), speech(1)) == []
    assert client.work(Detect)
    assert judged(client, 0.9) == SPOKEN[:1]
    assert client.hear(speech(1)) == []
    assert judged(client, 0.1) == SPOKEN[1:]
    start, stop = (next(one for one in client.session.out if one["type"] == kind) for kind in SPOKEN[:2])
    assert (start["audio_start_ms"], stop["audio_end_ms"]) == (0, pytest.approx(2016, abs=33))


def test_sound_that_a_detector_takes_for_noise_is_no_turn() -> None:
    client = Client(detects=True)
    for _ in range(3):
        client.hear(speech(1))
        assert judged(client, 0.1) == []
    assert client.work(Warm) == []


def test_the_threshold_is_the_clients() -> None:
    for threshold, begins in ((0.3, True), (0.9, False)):
        client = Client(detects=True, audio=turn(type="server_vad", threshold=threshold))
        client.hear(speech(1))
        assert (judged(client, 0.6) == SPOKEN[:1]) is begins


def test_a_turn_keeps_its_first_sound_while_the_detector_opens() -> None:
    client = Client(detects=True)
    client.hear(silence(1), speech(1.5))
    assert judged(client, 0.9) == SPOKEN[:1]
    assert client.session.buffer.seconds == pytest.approx(1.5 + 10 * 0.032 + 0.3, abs=0.1)


def test_another_model_without_a_detector_forgets_the_turn() -> None:
    client = Client(detects=True)
    client.hear(speech(1))
    judged(client, 0.9)
    client.able = False
    client.send("session.update", session={})
    assert not client.session.speaking
    assert client.work(Undraft)
    assert client.hear(silence(0.5), speech(1)) == SPOKEN[:1]


def test_a_commit_by_hand_takes_the_sound_that_waits() -> None:
    client = Client(detects=True)
    client.hear(speech(1))
    assert client.send("input_audio_buffer.commit") == COMMITTED
    assert len(client.work(Settle)[0].sound) == pytest.approx(64_000, abs=2_048)
    assert not client.session.buffer.waits


def live(**change: Any) -> Client:
    return Client(audio={"input": {"transcription": {"delay": "low"} | change}})


def test_the_sound_of_a_turn_is_overheard_where_the_client_wants_live_words() -> None:
    talk, dictation = Client(audio={"input": {"transcription": {}}}), Client(type="transcription")
    dictation.send("session.update", session={"audio": {"input": {"transcription": {}}}})
    for client, wanted in ((talk, False), (dictation, True), (live(), True), (live(delay=""), False)):
        client.hear(silence(0.5), speech(1), silence(1), speech(1))
        assert bool(client.work(Overhear)) is wanted
    client = live()
    client.hear(silence(1), speech(1))
    heard = client.work(Overhear)
    assert len({one.item_id for one in heard}) == 1
    assert len(b"".join(one.sound for one in heard)) == len(client.session.buffer.look())


def transcripts(client: Client) -> list[tuple[str, str]]:
    kind = "conversation.item.input_audio_transcription."
    found = [one for one in client.session.out if one["type"].startswith(kind)]
    assert len({one["item_id"] for one in found}) <= 1
    return [(one["type"].removeprefix(kind), one.get("delta", one.get("transcript"))) for one in found]


def test_live_words_come_first_and_the_rest_with_the_whole() -> None:
    client = live()
    client.hear(speech(1))
    item_id = client.work(Overhear)[0].item_id
    client.session.overheard(item_id, "The quick")
    client.session.overheard(item_id, " brown")
    client.hear(silence(1))
    client.session.overheard(item_id, " dog")  # too late
    client.session.transcribed(client.work(Settle)[0].item, "The quick brown fox.", 1.5)
    deltas = [("delta", one) for one in ("The quick", " brown", " fox.")]
    assert transcripts(client) == [*deltas, ("completed", "The quick brown fox.")]


def test_live_words_of_a_turn_that_is_cleared_are_forgotten() -> None:
    client = live()
    client.hear(speech(1))
    client.session.overheard(client.work(Overhear)[0].item_id, "One")
    client.send("input_audio_buffer.clear")
    client.session.out.clear()
    client.hear(silence(1), speech(1), silence(1))
    client.session.transcribed(client.work(Settle)[0].item, "One more.", 1.5)
    assert transcripts(client) == [("delta", "One more."), ("completed", "One more.")]


def test_a_turn_that_goes_on_drops_its_draft() -> None:
    client = Client()
    client.hear(speech(1), silence(0.3), speech(1), silence(1))
    assert [type(one) for one in client.session.work] == [Warm, Draft, Undraft, Draft, Settle]


def test_the_words_of_a_draft_may_be_read_ahead() -> None:
    client = Client()
    client.hear(speech(1), silence(0.3))
    assert client.work(Warm) == [Warm()]
    client.session.drafted("one two")
    client.session.drafted("")
    assert client.work(Warm) == [Warm(), Warm("one two")]
    over = Client(audio=turn(type="semantic_vad"))
    over.hear(speech(1), silence(0.5))
    over.session.drafted("It is over.")
    assert over.work(Settle)
    assert over.work(Warm) == [Warm()]


def test_words_end_a_semantic_turn_early() -> None:
    client = Client(audio=turn(type="semantic_vad", eagerness="low"))
    client.hear(speech(1), silence(0.4))
    client.session.drafted("I would like to")
    assert client.work(Settle) == []
    client.session.drafted("What time is it?")
    assert client.work(Settle) == []
    client.hear(silence(0.5))
    assert client.work(Settle)[0].drafted


def test_silence_ends_a_semantic_turn_late() -> None:
    client = Client(audio=turn(type="semantic_vad", eagerness="high"))
    assert client.hear(speech(1), silence(1.9)) == SPOKEN[:1]
    assert client.hear(silence(0.3)) == SPOKEN[1:]


def test_speech_cancels_an_answer_unless_the_client_does_that_itself() -> None:
    for interrupts in (True, False):
        client = Client(audio=turn(type="server_vad", interrupt_response=interrupts))
        client.send("response.create")
        told = client.hear(speech(0.5))
        assert ("response.done" in told) is interrupts
        assert len(client.work(Stop)) == interrupts
        assert (client.session.response is None) is interrupts


def test_speech_before_the_words_are_known_takes_the_answer_back() -> None:
    client = Client()
    client.hear(speech(1), silence(1), speech(0.5))
    client.session.transcribed(client.work(Settle)[0].item, "one", 1.5)
    assert client.work(Answer) == []


def test_the_client_may_drive_the_answers_itself() -> None:
    client = Client(audio=turn(type="server_vad", create_response=False))
    client.hear(speech(1), silence(1))
    client.session.transcribed(client.work(Settle)[0].item, "one", 1.5)
    assert client.work(Answer) == []
    assert client.send("response.create") == ["response.created"]


def test_commits_by_hand() -> None:
    client = Client(audio={"input": {"turn_detection": None}})
    assert client.hear(speech(0.05)) == []
    assert client.send("input_audio_buffer.commit") == ["error"]
    assert client.error["code"] == "input_audio_buffer_commit_empty"
    client.hear(speech(1), silence(2))
    assert client.send("input_audio_buffer.commit") == COMMITTED
    assert len(client.work(Settle)[0].sound) == int(3.05 * 64_000)
    client.session.transcribed(client.work(Settle)[0].item, "one", 1.5)
    assert client.work(Answer) == []


def test_a_clear_forgets_the_turn() -> None:
    client = Client()
    client.hear(speech(1))
    assert client.send("input_audio_buffer.clear") == ["input_audio_buffer.cleared"]
    assert client.hear(silence(2)) == []
    assert client.work(Settle) == []


def test_the_sound_that_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "MAX_SECONDS", 2.0)
    client = Client(audio={"input": {"turn_detection": None}})
    half = base64.b64encode(bytes(48_000)).decode()
    assert client.send("input_audio_buffer.append", audio=half) == []
    assert client.send("input_audio_buffer.append", audio=half) == []
    assert client.send("input_audio_buffer.append", audio=half[:6_400]) == ["error"]
    assert client.error["code"] == "buffer_size_exceeded"
    talker = Client()
    assert talker.hear(silence(5)) == []
    assert talker.session.buffer.seconds < 1


def test_a_turn_without_an_end_is_ended() -> None:
    client = Client()
    assert client.hear(*[speech(1)] * 121)[:5] == SPOKEN


def test_a_long_silence_after_an_answer_lets_the_model_speak_again() -> None:
    client = Client(audio=turn(type="server_vad", idle_timeout_ms=2_000))
    assert client.hear(silence(5)) == []
    client.send("response.create")
    response = client.session.response
    assert response is not None
    response.speak("hello")
    response.sound(bytes(48_000))
    response.spoke()
    response.end("completed")
    client.session.ended(response)
    assert client.hear(silence(2.8)) == []
    assert client.hear(silence(0.3)) == ["input_audio_buffer.timeout_triggered", "response.created"]


def test_items_stand_where_they_are_put() -> None:
    client = Client()
    for name, before in (("b", None), ("a", "root"), ("c", "b")):
        fields = {"previous_item_id": before} if before else {}
        told = client.send("conversation.item.create", item=user(name) | {"id": name}, **fields)
        assert told == ["conversation.item.added", "conversation.item.done"]
    assert [one.id for one in client.session.conversation.items] == ["a", "b", "c"]
    assert client.session.out[-1]["previous_item_id"] == "b"
    assert client.send("conversation.item.create", item=user() | {"id": "a"}) == ["error"]
    assert client.send("conversation.item.create", item=user(), previous_item_id="z") == ["error"]
    assert client.send("conversation.item.retrieve", item_id="b") == ["conversation.item.retrieved"]
    assert client.send("conversation.item.delete", item_id="b") == ["conversation.item.deleted"]
    assert client.send("conversation.item.retrieve", item_id="b") == ["error"]
    assert client.send("conversation.item.truncate", item_id="a", content_index=0, audio_end_ms=5) == ["error"]


def test_a_sound_in_an_item_is_transcribed() -> None:
    client = Client()
    part = {"type": "input_audio", "audio": base64.b64encode(bytes(48_000)).decode()}
    client.send("conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
    work = client.work(Settle)[0]
    assert (work.form, len(work.sound)) == (FORMS["audio/pcm"], 48_000)
    client.session.transcribed(work.item, "said", 1.0)
    assert work.item.text == "said"


def test_old_items_make_room() -> None:
    client = Client()
    client.send("conversation.item.create", item=user() | {"role": "system", "id": "first"})
    for _ in range(client.session.conversation.MOST):
        told = client.send("conversation.item.create", item=user())
    assert told[-1] == "conversation.item.deleted"
    assert client.session.conversation.items[0].id == "first"
    assert len(client.session.conversation.items) == client.session.conversation.MOST


def test_settings_that_are_wrong_change_nothing() -> None:
    client = Client()
    before = client.session.config
    wrong: list[dict[str, Any]] = [
        {"output_modalities": ["smell"]},
        {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 8_000}}}},
        {"audio": {"output": {"speed": 9}}},
        {"tool_choice": {"type": "function", "name": "none_such"}},
        {"tools": [{"type": "mcp", "name": "x"}]},
        {"tools": [{"name": "x"}, {"name": "x"}]},
        {"instructions": "x" * 300_000},
        {"max_output_tokens": 0},
    ]
    for change in wrong:
        assert client.send("session.update", session=change) == ["error"], change
        assert client.session.config is before


def test_an_update_merges_and_keeps_the_rest() -> None:
    client = Client()
    form = {"audio": {"input": {"format": {"type": "audio/pcmu"}}}}
    assert client.send("session.update", session=form) == ["session.updated"]
    sound = client.session.out[-1]["session"]["audio"]
    assert sound["input"]["format"] == {"type": "audio/pcmu"}
    assert sound["input"]["turn_detection"]["silence_duration_ms"] == 500
    assert sound["output"]["voice"] == "alloy"


def test_words_that_cannot_be_found_are_told_of() -> None:
    for transcription, kind in (({}, "conversation.item.input_audio_transcription.failed"), (None, "error")):
        client = Client(audio={"input": {"transcription": transcription}})
        client.hear(speech(1), silence(1))
        client.session.not_transcribed(client.work(Settle)[0].item, EngineFailure("broken"))
        assert client.session.out[-1]["type"] == kind
        assert client.session.out[-1]["error"]["code"] == "engine_failure"


def test_a_check_of_the_owner_holds_for_sessions_and_answers() -> None:
    def check(config: Config) -> None:
        if config.voice == "nobody":
            raise InvalidRequest("unknown voice", param="voice")

    client = Client()
    client.session._check = check
    sound = {"audio": {"output": {"voice": "nobody"}}}
    assert client.send("session.update", session=sound) == ["error"]
    assert client.send("response.create", response=sound) == ["error"]
    assert client.session.response is None


def engine_side(client: Client, chance: random.Random) -> Iterator[Callable[[], Any]]:
    """Steps that engines may take now."""
    session = client.session
    for work in list(client.work(Settle)):
        yield lambda work=work: (
            session.work.remove(work),
            session.transcribed(work.item, chance.choice(["", "some words."]), 1.0),
        )
        yield lambda work=work: (session.work.remove(work), session.not_transcribed(work.item, EngineFailure("no")))
    yield lambda: session.drafted("What is it?")
    if (response := session.response) is not None:
        if response.config.speaks:
            yield lambda: (response.speak("word "), response.sound(bytes(4_800)), response.spoke())
        else:
            yield lambda: response.say("word ")
        yield lambda: response.call(ToolCall("f", "{}"))
        yield lambda: response.count(FinishEvent("stop", 1, 1))
        for status in ("completed", "incomplete", "failed"):
            yield lambda status=status: (response.end(status), session.ended(response))


def client_side(client: Client, chance: random.Random) -> Iterator[Callable[[], Any]]:
    names = ["", "nobody", "root", *(one.id for one in client.session.conversation.items)]
    sound = base64.b64encode(bytes(chance.randrange(20_000))).decode()
    change: Any = chance.choice(
        [
            {"output_modalities": [chance.choice(["text", "audio"])]},
            {"audio": turn(type=chance.choice(["server_vad", "semantic_vad"]))},
            {"audio": {"input": {"turn_detection": None}}},
            {"type": chance.choice(["realtime", "transcription"])},
            {"audio": {"input": {"transcription": chance.choice([None, {}])}}},
        ]
    )
    yield lambda: client.hear(speech(chance.uniform(0.1, 2)), silence(chance.uniform(0.1, 2)))
    yield lambda: client.send("session.update", session=change)
    yield lambda: client.send("input_audio_buffer.append", audio=sound)
    yield lambda: client.send("conversation.item.create", item=user(), previous_item_id=chance.choice(names))
    yield lambda: client.send("conversation.item.truncate", item_id=chance.choice(names), audio_end_ms=100)
    yield lambda: client.send(
        "response.create", response=chance.choice([{}, {"conversation": "none"}, {"input": [user()]}])
    )
    for kind in ("response.cancel", "input_audio_buffer.commit", "input_audio_buffer.clear"):
        yield lambda kind=kind: client.send(kind)
    for kind in ("conversation.item.delete", "conversation.item.retrieve"):
        yield lambda kind=kind: client.send(kind, item_id=chance.choice(names))


@examples(60)
@given(st.randoms(use_true_random=False))
def test_any_order_of_events_keeps_the_rules(chance: random.Random) -> None:
    client = Client()
    for _ in range(25):
        chance.choice([*client_side(client, chance), *engine_side(client, chance)])()
        check_rules(client.session)


def check_rules(session: Session) -> None:
    """Rules of the events that a session has told since its start."""
    told = session.out
    json.dumps(told)
    assert len({one["event_id"] for one in told}) == len(told)
    names = [one.id for one in session.conversation.items]
    assert len(set(names)) == len(names)
    begun, ended, open_parts = [], [], 0
    for one in told:
        kind = one["type"]
        if kind == "response.created":
            assert begun == ended, "one answer at a time"
            begun.append(one["response"]["id"])
        elif kind == "response.done":
            ended.append(one["response"]["id"])
            assert one["response"]["status"] != "in_progress"
            assert all(item["status"] != "in_progress" for item in one["response"]["output"])
            assert open_parts == 0, "each part is closed before its answer"
        elif kind.startswith("response."):
            assert one["response_id"] == begun[-1], "an event of an answer that is over"
            assert begun != ended
            open_parts += (kind == "response.content_part.added") - (kind == "response.content_part.done")
    assert begun[: len(ended)] == ended
    assert (session.response is not None) == (len(begun) > len(ended))
