"""Requests of the chaos: those with a right answer, and those that must be refused."""

from __future__ import annotations

import io
import json
import math
import random
import struct
import wave
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import load
from benchmarks.alike import Speech, Vector
from benchmarks.attacks import SCHEMAS
from benchmarks.load import GREEDY, Ask

RATE = 16_000
FEW = ["nothing of this", "a long way", "a day"]


def tone(seconds: float) -> bytes:
    """A WAV file, int16 at 16 kHz."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        second = struct.pack(f"<{RATE}h", *(int(8000 * math.sin(0.17 * at)) + 1 for at in range(RATE)))
        whole = int(seconds * RATE) * 2
        file.writeframes((second * (int(seconds) + 1))[:whole])
    return out.getvalue()


def native(prompt: str, tokens: int, *, stream: bool = False) -> Ask:
    path, read = ("/v1/chat/stream", _streamed_text) if stream else ("/v1/chat", _text)
    return Ask(
        "llm", f"{prompt} ({'stream' if stream else 'whole'})", path, read, {"prompt": prompt, "max_length": tokens}
    )


def embed(texts: Sequence[str], job: str = "llm") -> Ask:
    return Ask(job, f"{len(texts)} texts", "/v1/embeddings", _vectors, {"model": job, "input": list(texts)})


def rank(query: str, documents: Sequence[str], model: str = "rerank", job: str = "rerank") -> Ask:
    """The right answer is the order of the documents: scores are rounded otherwise beside other requests."""
    body = {"model": model, "query": query, "documents": list(documents)}
    return Ask(job, f"{len(documents)} documents, {query}", "/v1/rerank", _order, body)


def hear(name: str, wav: bytes, *, stream: bool) -> Ask:
    """OpenAI's transcription of a file."""
    fields = {"model": (None, "asr"), "stream": (None, "true" if stream else "false"), "file": ("sound.wav", wav)}
    read = _heard if stream else _text
    return Ask("asr", name, "/v1/audio/transcriptions", read, files=fields)


def say(text: str, form: str) -> Ask:
    """The whole file, or samples as they come for "pcm". Each form begins with its own bytes."""
    body = {"model": "tts", "input": text, "response_format": form}
    return Ask("tts", f"{text} ({form})", "/v1/audio/speech", _sound, body)


def _text(body: bytes) -> Any:
    return json.loads(body)["text"]


def _streamed_text(body: bytes) -> Any:
    """The whole text of the last event. Raises ValueError unless the tokens before it are its words."""
    *events, last = [json.loads(line.removeprefix("data: ")) for line in body.decode().splitlines() if line]
    tokens = "".join(one["token"] for one in events)
    if not last["done"] or tokens != last["text"]:
        raise ValueError(f"tokens say {tokens!r}, the end {last}")
    return last["text"]


def _heard(body: bytes) -> Any:
    *events, last = [json.loads(line.removeprefix("data: ")) for line in body.decode().splitlines() if line]
    if last["type"] != "transcript.text.done":
        raise ValueError(f"the stream ended with {last}")
    return len(events), last["text"]


def _vectors(body: bytes) -> Any:
    return [Vector(tuple(one["embedding"])) for one in json.loads(body)["data"]]


def _order(body: bytes) -> Any:
    return [one["index"] for one in json.loads(body)["results"]]


def _sound(body: bytes) -> Any:
    if not body:
        raise ValueError("no sound")
    return Speech(body)


# Requests that must be refused


def bad(dice: random.Random) -> Ask:
    """A request that no server may answer with 200, except where the runtime can make sense of the schema."""
    return dice.choice(BAD)(dice)


def _bad_schema(dice: random.Random) -> Ask:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": dice.choice(SCHEMAS)}}
    messages = [{"role": "user", "content": "Say something."}]
    body = {"messages": messages, "response_format": form, "max_tokens": 4, **GREEDY}
    return Ask("llm", "bad schema", "/v1/chat/completions", bytes, body)


def _bad_sound(dice: random.Random) -> Ask:
    whole = tone(0.5)
    data = dice.choice((dice.randbytes(5000), whole[:30], b"", b"OggS" + dice.randbytes(300)))
    return Ask("asr", "broken sound", "/v1/transcribe/file", bytes, files={"audio": ("a.wav", data)})


def _bad_picture(dice: random.Random) -> Ask:
    data = dice.choice((dice.randbytes(300), b"\x89PNG\r\n\x1a\n" + dice.randbytes(100), b"\xff\xd8\xff" + b"\0" * 90))
    return load.look("broken picture", data, 4)


def _bad_fields(dice: random.Random) -> Ask:
    path = dice.choice(("/v1/chat", "/v1/audio/speech", "/v1/completions", "/v1/embeddings", "/v1/nowhere"))
    return Ask("", "bad fields", path, bytes, {"nothing": dice.choice((None, [], "x" * 5000, {"a": {}}))})


BAD: tuple[Callable[[random.Random], Ask], ...] = (_bad_schema, _bad_sound, _bad_picture, _bad_fields)


# What each kind of client asks


Asks = Mapping[str, Sequence[Ask]]
"""Requests by the kind of client."""


def of_fakes(picture: bytes) -> Asks:
    """No two with the same answer."""
    words = " ".join(f"word{number}" for number in range(60))
    long = " ".join(f"long{number}" for number in range(800))
    told = "one two three. four five. " * 4
    return {
        "native chat": [native(f"{words} native", 200), native("four words to repeat", 50)],
        "native stream": [native(f"{words} stream", 200, stream=True)],
        "chat": [load.chat(f"{words} chat", 200)],
        "chat stream": [load.chat(f"{words} chats", 200, stream=True), load.chat(long, 900, stream=True)],
        "completions": [load.go_on(words, 300), load.go_on(f"{words} again ", 300, stream=True)],
        "embeddings": [embed(["a heron", "a stork and a crane"]), embed([words], "embedding")],
        "rerank": [rank("a heron", ["a train", "a heron in the water", "a river"]), rank("long", FEW + [words] * 20)],
        "vision": [load.look("one", picture, 20)],
        "vision stream": [load.look("two", picture + b"\0" * 9, 20, stream=True)],
        "transcription": [load.transcribe("3 s", tone(3)), hear("5 s", tone(5), stream=True)],
        "long sound": [load.transcribe("90 s", tone(90)), hear("60 s", tone(60), stream=False)],
        "speech wav": [say(told, "wav")],
        "speech mp3": [say(told + "six. ", "mp3"), load.speak(told + "seven. ", stream=True)],
        "speech pcm": [say("all of this is said slowly. " * 40, "pcm")],
    }
