"""The state of one session: events of the client and of the engines go in, events to the client and work come out.

No I/O and no clock. Time is the sound's own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.realtime import commands
from edgeserve.api.realtime.items import Conversation, Item, read_item
from edgeserve.api.realtime.refusal import Refused, words
from edgeserve.api.realtime.response import Response
from edgeserve.api.realtime.shape import Config
from edgeserve.api.schema import read_variant
from edgeserve.errors import EdgeserveError, InvalidRequest
from edgeserve.talk import ending
from edgeserve.talk.forms import Incoming
from edgeserve.talk.recorded import MAX_SECONDS, Recorded
from edgeserve.talk.turns import Mark, TurnFinder

LEAST_SECONDS = 0.1
"""Shortest sound that a client may commit."""
SPARE_SECONDS = 0.5
"""Seconds kept in silence beside the prefix of a turn: speech is certain only some frames after it began."""
MAX_PROMPT_ITEMS = 512


@dataclass(frozen=True, slots=True)
class Warm:
    """The user speaks: the engines of an answer may get ready."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The turn may be over: find its words ahead."""

    sound: bytes


@dataclass(frozen=True, slots=True)
class Undraft:
    """The turn goes on: the draft is worthless."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Find the words of an item. ``drafted``: the latest draft has heard the same speech."""

    item: Item
    sound: bytes
    drafted: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """Make an answer."""

    response: Response


@dataclass(frozen=True, slots=True)
class Stop:
    """An answer has been cancelled."""

    response: Response


Work = Warm | Draft | Undraft | Settle | Answer | Stop


def new_id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(10)}"


class Session:
    """One session. ``out`` collects events, ``work`` what is to be done, both in order; the owner takes them out.

    ``check`` raises for settings that the served models cannot follow.
    """

    def __init__(
        self,
        config: Config,
        limits: Limits,
        check: Callable[[Config], None] = lambda config: None,
        make_id: Callable[[str], str] = new_id,
    ) -> None:
        self.out: list[dict[str, Any]] = []
        self.work: list[Work] = []
        self.conversation = Conversation()
        self.response: Response | None = None
        """The answer under way."""
        self._limits, self._check, self._id = limits, check, make_id
        self._name, self._conversation_id = make_id("sess"), make_id("conv")
        self._recorded = Recorded()
        self._turn = ""
        """Id of the item that the turn under way will be."""
        self._turn_start = 0.0
        self._answered: set[str] = set()
        """Items whose words begin an answer."""
        self._settling: set[str] = set()
        self._waits_from: float | None = None
        """End of the latest answer's sound, from which ``idle_timeout_ms`` counts."""
        self._config = config
        self._incoming = Incoming(config.source)
        self._finder = self._made_finder()

    @property
    def config(self) -> Config:
        return self._config

    @property
    def speaking(self) -> bool:
        """Whether the user speaks."""
        return self._finder is not None and self._finder.speaking

    def begin(self) -> None:
        self._tell("session.created", session=self._written())

    def read(self, fields: Fields) -> commands.Command:
        """The client's event. Raises InvalidRequest."""
        if fields.raw("type") not in commands.COMMANDS:
            text = (
                f"type {str(fields.raw('type'))[:80]!r} is no event of clients; known: {', '.join(commands.COMMANDS)}"
            )
            raise Refused.by("unknown_message_type", text, "type")
        return read_variant(fields, commands.COMMANDS, self._limits)

    def fail(self, error: EdgeserveError, event_id: str | None = None) -> None:
        """Tell the client of an error. The session goes on."""
        self._tell("error", error=words(error) | {"event_id": event_id})

    def take(self, command: commands.Command) -> None:
        """Follow an event, all but sound. Raises InvalidRequest and its kinds; nothing has changed then."""
        match command:
            case commands.Update():
                self._update(command)
            case commands.Create():
                self._create(command)
            case commands.Truncate():
                self._truncate(command)
            case commands.OfItem(type="conversation.item.delete"):
                self.conversation.remove(command.item_id)
                self._tell("conversation.item.deleted", item_id=command.item_id)
            case commands.OfItem():
                self._tell("conversation.item.retrieved", item=self.conversation.find(command.item_id).written())
            case commands.Respond():
                self._respond(command)
            case commands.Cancel():
                self._cancel(command)
            case commands.Command(type="input_audio_buffer.commit"):
                self._commit_by_hand()
            case commands.Command(type="input_audio_buffer.clear"):
                self._clear()

    def pieces(self, command: commands.Append) -> Iterator[bytes]:
        """The sound of an event in pieces for ``hear``, each of some milliseconds' work. Raises InvalidRequest."""
        room = MAX_SECONDS - self._recorded.seconds
        if (length := self._config.source.seconds(len(command.audio))) > room and self._config.rules is None:
            text = (
                f"{length:.1f} s of sound do not fit: {self._recorded.seconds:.0f} s of {MAX_SECONDS:.0f} s wait for a"
            )
            raise Refused.by("buffer_size_exceeded", f"{text} commit; commit or clear them", "audio")
        return self._incoming.feed(command.audio)

    def hear(self, piece: bytes) -> None:
        """More sound of the user: float32 at 16 kHz."""
        self._recorded.add(piece)
        if self._finder is None:
            return
        for mark in self._finder.feed(piece):
            self._mark(mark)
        if not self._finder.speaking:
            self._recorded.drop(self._recorded.end - self._finder.rules.prefix - SPARE_SECONDS)
            self._look_at_silence()
        elif self._recorded.seconds >= MAX_SECONDS:
            self._finder.clear()
            self._stopped(self._finder.now)

    def drafted(self, text: str) -> None:
        """The words of the draft. They may end the turn."""
        finder = self._finder
        if finder and finder.rules.semantic and finder.lull and (not text.strip() or ending.is_over(text)):
            for mark in finder.finish():
                self._mark(mark)

    def transcribed(self, item: Item, text: str, seconds: float) -> None:
        """The words of an item's sound."""
        part = next((at for at, one in enumerate(item.content) if one.get("transcript", "") is None), 0)
        item.content[part]["transcript"] = text
        self._settling.discard(item.id)
        if self._config.transcription is not None:
            place = {"item_id": item.id, "content_index": part}
            kind = "conversation.item.input_audio_transcription"
            if text:
                self._tell(f"{kind}.delta", **place, delta=text)
            usage = {"type": "duration", "seconds": round(seconds, 3)}
            self._tell(f"{kind}.completed", **place, transcript=text, usage=usage)
        self._crowd_out(item)
        wanted = item.id in self._answered
        self._answered.discard(item.id)
        if wanted and text and self.response is None:
            self._begin_answer(self._config)

    def not_transcribed(self, item: Item, error: EdgeserveError) -> None:
        """The sound of an item has no words, since the engine failed."""
        self._settling.discard(item.id)
        self._answered.discard(item.id)
        if self._config.transcription is not None:
            kind = "conversation.item.input_audio_transcription.failed"
            self._tell(kind, item_id=item.id, content_index=0, error=words(error))
        else:
            self.fail(error)

    def ended(self, response: Response) -> None:
        """An answer has ended, by itself or by a failure."""
        if self.response is response:
            self.response = None
            self._waits_from = self._recorded.end + response.seconds

    def _tell(self, type_: str, **fields: Any) -> None:
        self.out.append({"type": type_, "event_id": self._id("event"), **fields})

    def _written(self) -> dict[str, Any]:
        written = {"object": "realtime.session", "id": self._name, **self._config.written}
        if self._config.talks:
            return written
        return {name: written[name] for name in ("object", "id", "type", "audio", "include")}

    # Settings

    def _update(self, command: commands.Update) -> None:
        assert command.session is not None  # noqa: S101 - it is required
        change = dict(command.session.items())
        if command.type == "transcription_session.update":
            change["type"] = "transcription"
        config = self._config.changed(change, self._limits)
        self._check(config)
        self._change(config)
        self._tell(command.type.replace(".update", ".updated"), session=self._written())

    def _change(self, config: Config) -> None:
        old, self._config = self._config, config
        if old.source != config.source:
            self._incoming = Incoming(config.source)
        if old.rules != config.rules:
            if self.speaking:
                self.work.append(Undraft())
            self._finder, self._turn = self._made_finder(), ""

    def _made_finder(self) -> TurnFinder | None:
        rules = self._config.rules
        return TurnFinder(rules, self._recorded.end) if rules else None

    # Turns of the user

    def _mark(self, mark: Mark) -> None:
        match mark.kind:
            case "started":
                self._started(mark.at)
            case "lull":
                self.work.append(Draft(self._recorded.look()))
            case "resumed":
                self.work.append(Undraft())
            case "stopped":
                self._stopped(mark.at, drafted=True)

    def _started(self, at: float) -> None:
        self._turn, self._turn_start, self._waits_from = self._id("item"), at, None
        self._recorded.drop(at)
        self._tell("input_audio_buffer.speech_started", audio_start_ms=_ms(at), item_id=self._turn)
        self.work.append(Warm())
        detection = self._config.detection
        if detection is not None and detection.interrupt_response:
            self._answered.clear()
            if self.response is not None:
                self._end_answer(self.response, "turn_detected")

    def _stopped(self, at: float, *, drafted: bool = False) -> None:
        name, self._turn = self._turn or self._id("item"), ""
        self._tell("input_audio_buffer.speech_stopped", audio_end_ms=_ms(at), item_id=name)
        detection = self._config.detection
        if self._config.talks and detection is not None and detection.create_response:
            self._answered.add(name)
        self._commit(name, drafted=drafted)

    def _look_at_silence(self) -> None:
        """Let the model speak again where nobody has spoken for ``idle_timeout_ms``."""
        detection, since = self._config.detection, self._waits_from
        if since is None or detection is None or detection.idle_timeout_ms is None or self.response is not None:
            return
        now = self._recorded.end
        if now - since >= detection.idle_timeout_ms / 1000:
            self._waits_from = None
            name = self._id("item")
            times = {"audio_start_ms": _ms(since), "audio_end_ms": _ms(now)}
            self._tell("input_audio_buffer.timeout_triggered", **times, item_id=name)
            self._begin_answer(self._config)

    def _commit_by_hand(self) -> None:
        if (seconds := self._recorded.seconds) < LEAST_SECONDS:
            text = (
                f"the buffer holds {seconds * 1000:.0f} ms of sound; a commit takes at least {LEAST_SECONDS * 1000:.0f}"
            )
            raise Refused.by("input_audio_buffer_commit_empty", f"{text} ms: append sound first")
        name, self._turn = self._turn or self._id("item"), ""
        if self._finder is not None:
            self._finder.clear()
        self._commit(name)

    def _commit(self, name: str, *, drafted: bool = False) -> None:
        sound = self._recorded.take()
        item = Item(name, role="user", content=[{"type": "input_audio", "transcript": None}])
        before = self.conversation.add(item)
        self._tell("input_audio_buffer.committed", item_id=name, previous_item_id=before)
        self._tell("conversation.item.added", previous_item_id=before, item=item.written())
        self._tell("conversation.item.done", previous_item_id=before, item=item.written())
        self._settle(item, sound, drafted=drafted)

    def _settle(self, item: Item, sound: bytes, *, drafted: bool = False) -> None:
        self._settling.add(item.id)
        self.work.append(Settle(item, sound, drafted))

    def _clear(self) -> None:
        self._recorded.drop(self._recorded.end)
        if self._finder is not None:
            if self._finder.speaking:
                self.work.append(Undraft())
            self._finder.clear()
        self._turn = ""
        self._tell("input_audio_buffer.cleared")

    # Items

    def _create(self, command: commands.Create) -> None:
        assert command.item is not None  # noqa: S101 - it is required
        item = read_item(command.item, self._limits, self._id("item"))
        before = self.conversation.add(item, command.previous_item_id or None)
        self._tell("conversation.item.added", previous_item_id=before, item=item.written())
        self._tell("conversation.item.done", previous_item_id=before, item=item.written())
        self._hear_item(item)
        self._crowd_out(item)

    def _hear_item(self, item: Item) -> None:
        if item.sound is not None:
            data, item.sound = item.sound[1], None
            self._settle(item, b"".join(Incoming(self._config.source).feed(data)))

    def _truncate(self, command: commands.Truncate) -> None:
        item = self.conversation.find(command.item_id)
        if item.spoken is None:
            raise InvalidRequest(f"item {item.id} holds no speech of the assistant", param="item_id")
        item.spoken.cut(command.audio_end_ms / 1000)  # an end behind the speech cuts nothing: some clients play late
        item.content[0]["transcript"] = item.spoken.text
        place = {"content_index": command.content_index, "audio_end_ms": command.audio_end_ms}
        self._tell("conversation.item.truncated", item_id=item.id, **place)

    def _crowd_out(self, kept: Item) -> None:
        for item in self.conversation.crowd_out(kept):
            self._tell("conversation.item.deleted", item_id=item.id)

    # Answers

    def _respond(self, command: commands.Respond) -> None:
        if not self._config.talks:
            raise InvalidRequest(
                "this session transcribes and answers nothing: set session.type to realtime", param="type"
            )
        if self.response is not None:
            text = f"answer {self.response.id} is under way: wait for its response.done, or cancel it"
            raise Refused.by("conversation_already_has_active_response", text)
        given = dict(command.response.items()) if command.response is not None else {}
        asked = commands.Asked(Fields(given, "response."), self._limits)
        own = {name: given.pop(name) for name in ("conversation", "metadata", "input") if name in given}
        config = self._config.changed(given, self._limits, "response") if given else self._config
        self._check(config)
        prompt = self._prompt(own["input"]) if own.get("input") is not None else None
        metadata: Mapping[str, Any] | None = dict(asked.metadata.items()) if asked.metadata is not None else None
        self._begin_answer(config, asked.conversation == "none", prompt, metadata)

    def _prompt(self, given: Any) -> list[Item]:
        """The items to answer instead of the conversation; items of the conversation by reference."""
        if (
            not isinstance(given, list)
            or len(given) > MAX_PROMPT_ITEMS
            or not all(isinstance(one, dict) for one in given)
        ):
            raise InvalidRequest(
                f"response.input must be a list of at most {MAX_PROMPT_ITEMS} items", param="response.input"
            )
        items = []
        for at, one in enumerate(given):
            if one.get("type") == "item_reference":
                items.append(self.conversation.find(str(one.get("id"))))
            else:
                items.append(read_item(Fields(one, f"response.input[{at}]."), self._limits, self._id("item")))
        for item in items:
            self._hear_item(item)
        return items

    def _begin_answer(
        self,
        config: Config,
        beside: bool = False,
        prompt: list[Item] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self._waits_from = None
        response = Response(
            self._id("resp"),
            config,
            None if beside else self.conversation,
            self._tell,
            self._id,
            prompt=prompt,
            metadata=metadata,
            conversation_id=self._conversation_id,
        )
        self.response = response
        response.begin()
        self.work.append(Answer(response))

    def _cancel(self, command: commands.Cancel) -> None:
        response = self.response
        if response is None or command.response_id not in ("", response.id):
            raise Refused.by(
                "response_cancel_not_active", "there is no such answer under way: it may have ended", "response_id"
            )
        self._end_answer(response, "client_cancelled")

    def _end_answer(self, response: Response, reason: str) -> None:
        response.end("cancelled", reason)
        self.ended(response)
        self.work.append(Stop(response))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
