"""Engines behind a running server, asked as if they were in this process."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edgeserve.audio.clip import Clip
from edgeserve.audio.encode import PCM_RATE
from edgeserve.commands import Call
from edgeserve.commands.remote import URL, Server, read_answer, server
from edgeserve.dataclass import dataclass
from edgeserve.errors import EdgeserveError, NotSupported
from edgeserve.jobs import INFO, Job
from edgeserve.messages import (
    AudioEvent,
    ChatEvent,
    ChatRequest,
    FinishEvent,
    ReasoningEvent,
    Request,
    SegmentEvent,
    SpeakRequest,
    TokenEvent,
    TranscribeEvent,
    TranscribeRequest,
    TranscriptEnd,
)

LOOK_SECONDS = 2.0
"""Time in which a server that nobody named must list its models."""
WORK_SECONDS = 3600.0
"""Longest silence within an answer: a long recording, or a long prompt on a slow machine."""
PIECE_BYTES = 4800
"""Bytes of sound in one event: a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Served:
    """One job of a server. ``model``: a name; empty: the default. A context manager, with nothing to close."""

    server: Server
    model: str = ""

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *ignored: object) -> None:
        return None

    def ask(self, request: Request, take: Callable[[Any], object]) -> None:
        """As ``Session.ask``. An interrupt closes the connection, and so ends the work."""
        for event in self._events(request):
            take(event)

    def _events(self, request: Request) -> Iterator[Any]:
        match request:
            case ChatRequest():
                return self._chat(request)
            case SpeakRequest():
                return self._speak(request)
            case TranscribeRequest():
                return self._transcribe(request)
        raise NotSupported(f"a running server is not asked for a {type(request).__name__}; use --local")

    @property
    def _named(self) -> dict[str, Any]:
        return {"model": self.model} if self.model else {}

    def _chat(self, request: ChatRequest) -> Iterator[ChatEvent]:
        messages = [{"role": one.role, "content": one.text} for one in request.messages]
        body: dict[str, Any] = {"messages": messages, "stream": True, "stream_options": {"include_usage": True}}
        if request.max_tokens is not None:
            body["max_tokens"] = request.max_tokens
        reason, usage = "stop", {"prompt_tokens": 0, "completion_tokens": 0}
        for event in self.server.events("POST", "/v1/chat/completions", body | self._named, seconds=WORK_SECONDS):
            _raise_error(event)
            usage = event.get("usage") or usage
            for choice in event.get("choices", ()):
                reason = choice.get("finish_reason") or reason
                delta = choice.get("delta", {})
                if thought := delta.get("reasoning_content"):
                    yield ReasoningEvent(thought)
                if text := delta.get("content"):
                    yield TokenEvent(text)
        yield FinishEvent(
            "length" if reason == "length" else "stop", usage["prompt_tokens"], usage["completion_tokens"]
        )

    def _speak(self, request: SpeakRequest) -> Iterator[AudioEvent]:
        body: dict[str, Any] = {"input": request.text, "speed": request.speed, "response_format": "pcm"}
        if request.voice:
            body["voice"] = request.voice
        with self.server.open("POST", "/v1/audio/speech", body | self._named, seconds=WORK_SECONDS) as answer:
            while pcm := answer.read(PIECE_BYTES):
                yield AudioEvent(pcm, PCM_RATE)

    def _transcribe(self, request: TranscribeRequest) -> Iterator[TranscribeEvent]:
        if not isinstance(request.audio, Clip):
            raise NotSupported("a running server takes files of sound; use --local")
        fields = {"response_format": "verbose_json", **self._named}
        fields |= {"language": request.language} if request.language else {}
        route = "translations" if request.translate else "transcriptions"
        media, body = form(fields, request.audio.data)
        with self.server.open("POST", f"/v1/audio/{route}", body, media=media, seconds=WORK_SECONDS) as answer:
            found = read_answer(answer.read(), self.server.url)
        for one in found["segments"]:
            yield SegmentEvent(one["start"], one["end"], one["text"])
        yield TranscriptEnd(found["language"], found["duration"])


def form(fields: Mapping[str, str], sound: bytes) -> tuple[str, bytes]:
    """Media type and bytes of a form with these fields and one file of sound (RFC 7578)."""
    mark = f"edgeserve-{secrets.token_hex(16)}"
    head = 'Content-Disposition: form-data; name="{}"'
    parts = [f"--{mark}\r\n{head.format(name)}\r\n\r\n{value}\r\n".encode() for name, value in fields.items()]
    file = f'--{mark}\r\n{head.format("file")}; filename="sound"\r\nContent-Type: application/octet-stream\r\n\r\n'
    return f"multipart/form-data; boundary={mark}", b"".join(
        [*parts, file.encode(), sound, f"\r\n--{mark}--\r\n".encode()]
    )


def find_served(call: Call, job: Job) -> Served | None:
    """The running server that shall work for a command; None: this process works itself.

    1. ``--local`` or a device: this process.
    2. The server that the call names, which must answer.
    3. The server at the address of the settings, if one answers and serves the job, and the model of the call.
    """
    args, model = call.args, getattr(call.args, INFO[job].variable.lower(), None) or ""
    # 1.
    if getattr(args, "local", True) or getattr(args, "device", None):
        return None
    # 2.
    if args.url or call.environ.get(URL):
        return Served(server(call), model)
    # 3.
    if call.build_pool is not None:
        return None  # the engines of a test
    one = server(call)
    try:
        served = one.ask("GET", "/v1/models", seconds=LOOK_SECONDS).get("models", ())
        names = [found["name"] for found in served if found["type"] == job]
    except (EdgeserveError, AttributeError, KeyError, TypeError):
        return None  # nobody answers there, or another program
    return Served(one, model) if names and (not model or model in names) else None


def _raise_error(event: Any) -> None:
    if isinstance(event, dict) and isinstance(event.get("error"), dict):
        raise EdgeserveError(str(event["error"].get("message", "the answer was cut short")))
