"""The state of one session: events of the client and of the engines go in, events to the client and work come out.

No I/O and no clock. Time is the sound's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.realtime import asked, commands
from edgeserve.api.realtime.answers import Answers
from edgeserve.api.realtime.asked import Asked
from edgeserve.api.realtime.buffer import Buffer
from edgeserve.api.realtime.config import Config
from edgeserve.api.realtime.conversation import Conversation
from edgeserve.api.realtime.items import Item, new_id, read_item
from edgeserve.api.realtime.refusal import words
from edgeserve.api.realtime.response import Response
from edgeserve.api.realtime.transcripts import Transcripts
from edgeserve.api.realtime.work import Detect, Draft, Overhear, Settle, Undraft, Warm, Work
from edgeserve.errors import EdgeserveError, InvalidRequest
from edgeserve.messages import DetectRequest, SpeechChances
from edgeserve.talk import ending
from edgeserve.talk.turns import Mark


class Session:
    """One session. ``out`` collects events, ``work`` what is to be done, both in order; the owner takes them out.

    ``check`` raises for settings that the served models cannot follow. ``detects`` says whether the model that
    transcribes has a detector of speech.
    """

    def __init__(
        self,
        config: Config,
        limits: Limits,
        check: Callable[[Config], None] = lambda config: None,
        make_id: Callable[[str], str] = new_id,
        detects: Callable[[Config], bool] = lambda config: False,
    ) -> None:
        self.out: list[dict[str, Any]] = []
        self.work: list[Work] = []
        self.conversation = Conversation(self._tell)
        self._limits, self._check, self._id, self._detects = limits, check, make_id, detects
        self._name = make_id("sess")
        self._answers = Answers(self.conversation, self._tell, self.work, make_id)
        self._transcripts = Transcripts(self._tell)
        self._turn = ""
        """Id of the item that the turn under way will be."""
        self._answered: set[str] = set()
        """Items whose words begin an answer."""
        self._config = config
        self.buffer = Buffer(config.source, config.rules, detects=detects(config))

    @property
    def config(self) -> Config:
        return self._config

    @property
    def response(self) -> Response | None:
        """The answer under way."""
        return self._answers.current

    @property
    def speaking(self) -> bool:
        """Whether the user speaks."""
        return self.buffer.speaking

    def begin(self) -> None:
        self._tell("session.created", session=self._written())

    def read(self, fields: Fields) -> commands.Command:
        """The client's event. Raises InvalidRequest."""
        return commands.read(fields, self._limits)

    def fail(self, error: EdgeserveError, event_id: str | None = None) -> None:
        """Tell the client of an error. The session continues."""
        self._tell("error", error=words(error) | {"event_id": event_id})

    def take(self, command: commands.Command) -> None:
        """Follow an event, all but sound. Raises InvalidRequest and its kinds; nothing has changed then."""
        match command:
            case commands.Update():
                self._update(command)
            case commands.Create():
                self._create(command)
            case commands.Truncate():
                self.conversation.truncate(command.item_id, command.content_index, command.audio_end_ms)
            case commands.OfItem(type="conversation.item.delete"):
                self.conversation.remove(command.item_id)
            case commands.OfItem():
                self.conversation.retrieve(command.item_id)
            case commands.Respond():
                self._respond(command)
            case commands.Cancel():
                self._answers.cancel(command.response_id, self.buffer.end)
            case commands.Command(type="input_audio_buffer.commit"):
                self._commit_by_hand()
            case commands.Command(type="input_audio_buffer.clear"):
                self._clear()

    def pieces(self, command: commands.Append) -> Iterator[bytes]:
        """The sound of an event in pieces for ``hear``, each of some milliseconds' work. Raises InvalidRequest."""
        return self.buffer.pieces(command.audio)

    def hear(self, piece: bytes) -> None:
        """More sound of the user: float32 at 16 kHz."""
        turn = self._turn
        for mark in self.buffer.feed(piece):
            self._mark(mark)
        if turn and turn == self._turn:
            self._overhear(piece)
        if self.buffer.waits:
            self.work.append(Detect())
        if self.buffer.full:
            self._stopped(self.buffer.cut())
        elif not self.speaking:
            self.buffer.drop_silence()
            self._look_at_silence()

    def detected(self, question: DetectRequest, found: SpeechChances | None, *, last: bool = False) -> None:
        """The detector's verdict on the buffer's ``question``; None: none could be had. ``last``: loudness decides."""
        for mark in self.buffer.give_up() if last else self.buffer.answer(question, found):
            self._mark(mark)

    def overheard(self, item_id: str, text: str) -> None:
        """Words of the turn under way that have become certain."""
        if item_id == self._turn:
            self._transcripts.overheard(item_id, text)

    def drafted(self, text: str) -> None:
        """The words of the draft. They may end the turn."""
        for mark in self.buffer.finish(is_over=not text.strip() or ending.is_over(text)):
            self._mark(mark)
        if self.speaking and text:
            self.work.append(Warm(text))

    def transcribed(self, item: Item, text: str, seconds: float) -> None:
        """The words of an item's sound."""
        part = next((at for at, one in enumerate(item.content) if one.get("transcript", "") is None), 0)
        item.content[part]["transcript"] = text
        if self._config.transcription is not None:
            self._transcripts.completed(item.id, part, text, seconds)
        self.conversation.crowd_out(item)
        wanted = item.id in self._answered
        self._answered.discard(item.id)
        if wanted and text and self.response is None:
            self._answers.begin(Asked(self._config))

    def not_transcribed(self, item: Item, error: EdgeserveError) -> None:
        """The sound of an item has no words, since the engine failed."""
        self.conversation.crowd_out(item)
        self._answered.discard(item.id)
        if self._config.transcription is not None:
            self._transcripts.failed(item.id, error)
        else:
            self.fail(error)

    def ended(self, response: Response) -> None:
        """An answer has ended, by itself or by a failure."""
        self._answers.ended(response, self.buffer.end)

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
        self._config, spoke = config, self.speaking
        self.buffer.change(config.source, config.rules, detects=self._detects(config))
        if spoke and not self.speaking:
            self.work.append(Undraft())
            self._forget_turn()

    # Turns of the user

    def _mark(self, mark: Mark) -> None:
        match mark.kind:
            case "started":
                self._started(mark.at)
            case "lull":
                self.work.append(Draft(self.buffer.look()))
            case "resumed":
                self.work.append(Undraft())
            case "stopped":
                self._stopped(mark.at, drafted=True)

    def _started(self, at: float) -> None:
        self._turn, self._answers.waits_from = self._id("item"), None
        self.buffer.drop(at)
        self._tell("input_audio_buffer.speech_started", audio_start_ms=_ms(at), item_id=self._turn)
        self.work.append(Warm())
        self._overhear(self.buffer.look())
        detection = self._config.detection
        if detection is not None and detection.interrupt_response:
            self._answered.clear()
            self._answers.stop("turn_detected", self.buffer.end)

    def _stopped(self, at: float, *, drafted: bool = False) -> None:
        name, self._turn = self._turn or self._id("item"), ""
        self._tell("input_audio_buffer.speech_stopped", audio_end_ms=_ms(at), item_id=name)
        if self._config.answers_turns:
            self._answered.add(name)
        self._commit(name, drafted=drafted)

    def _look_at_silence(self) -> None:
        """Let the model speak again where nobody has spoken for ``idle_timeout_ms``."""
        detection, since = self._config.detection, self._answers.waits_from
        if since is None or detection is None or detection.idle_timeout_ms is None or self.response is not None:
            return
        now = self.buffer.end
        if now - since >= detection.idle_timeout_ms / 1000:
            name = self._id("item")
            times = {"audio_start_ms": _ms(since), "audio_end_ms": _ms(now)}
            self._tell("input_audio_buffer.timeout_triggered", **times, item_id=name)
            self._answers.begin(Asked(self._config))

    def _commit_by_hand(self) -> None:
        self.buffer.check_commit()
        name, self._turn = self._turn or self._id("item"), ""
        self.buffer.cut()
        self._commit(name)

    def _commit(self, name: str, *, drafted: bool = False) -> None:
        sound = self.buffer.take()
        item = Item(name, role="user", content=[{"type": "input_audio", "transcript": None}])
        self._tell("input_audio_buffer.committed", item_id=name, previous_item_id=self.conversation.last)
        self.conversation.add(item)
        self.conversation.finish(item)
        self.conversation.crowd_out(item)
        self.work.append(Settle(item, sound, drafted))

    def _clear(self) -> None:
        self.buffer.drop(self.buffer.end)
        if self.speaking:
            self.work.append(Undraft())
        self.buffer.cut()
        self._forget_turn()
        self._tell("input_audio_buffer.cleared")

    def _forget_turn(self) -> None:
        self._transcripts.forget(self._turn)
        self._turn = ""

    def _overhear(self, sound: bytes) -> None:
        if self._config.overhears:
            self.work.append(Overhear(self._turn, sound))

    # Items

    def _create(self, command: commands.Create) -> None:
        assert command.item is not None  # noqa: S101 - it is required
        item = read_item(command.item, self._limits, self._id("item"))
        self.conversation.add(item, command.previous_item_id or None)
        self.conversation.finish(item)
        self._hear_item(item)
        self.conversation.crowd_out(item)

    def _hear_item(self, item: Item) -> None:
        if item.sound is not None:
            data, item.sound = item.sound[1], None
            self.work.append(Settle(item, data, form=self._config.source))

    # Answers

    def _respond(self, command: commands.Respond) -> None:
        if not self._config.talks:
            text = "this session transcribes and answers nothing: set session.type to realtime"
            raise InvalidRequest(text, param="type")
        self._answers.check_none()
        wanted = asked.read(command, self._config, self._limits, self.conversation, self._id)
        self._check(wanted.config)
        for item in wanted.prompt or ():
            self._hear_item(item)
        self._answers.begin(wanted)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
