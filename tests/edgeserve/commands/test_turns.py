"""A conversation turn by turn, on fake engines: they write down seconds of sound, and repeat them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from support.server import Running, fake_pool, serving
from support.wyoming import loud

from edgeserve.commands.remote import Server
from edgeserve.commands.turns import Conversation
from edgeserve.errors import EdgeserveError
from edgeserve.messages import AudioEvent


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(fake_pool(["llm", "asr", "tts"])) as running:
        yield running


class Speaker:
    """A loudspeaker that notes what it plays."""

    played: list[float]

    def __init__(self, environ: Mapping[str, str]) -> None:
        type(self).played = []

    def __enter__(self) -> Speaker:
        return self

    def __exit__(self, *ignored: object) -> None:
        return None

    def add(self, event: AudioEvent) -> None:
        self.played.append(len(event.pcm) / 2 / event.sample_rate)

    def end(self) -> None:
        self.played.append(0.0)


def test_turns(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    conversation = Conversation(Server(running.url.rstrip("/")), {}, speaker=Speaker)
    conversation.turn(loud(2.5))
    assert capsys.readouterr().out == "> 1 2 3\n1 2 3\n"
    assert sum(Speaker.played) == pytest.approx(0.3)
    assert Speaker.played[-1] == 0.0
    conversation.turn(loud(1.0))
    assert capsys.readouterr().out == "> 1\n1\n"


def test_silence_is_no_turn(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    Conversation(Server(running.url.rstrip("/")), {}, speaker=Speaker).turn(bytes(32_000))
    assert capsys.readouterr().out == ""


def test_an_error_leaves_the_conversation_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(fake_pool(["llm", "asr", "tts"], fail_word="2")) as running:
        conversation = Conversation(Server(running.url.rstrip("/")), {}, speaker=Speaker)
        with pytest.raises(EdgeserveError):
            conversation.turn(loud(2.0))
        conversation.turn(loud(1.0))
    assert capsys.readouterr().out.endswith("> 1\n1\n")
