"""Events of all programs: unknown ones, and the choice of a program."""

from __future__ import annotations

import dataclasses

import pytest
from support.gates import FAKES, fake_spec
from support.server import considerate_governor
from support.wyoming import Event, Wyoming, speaking_wyoming, written

from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.residency.pool import Pool


def test_ping(wyoming: Wyoming) -> None:
    with wyoming.dialled() as client:
        client.send("ping", {"text": "there?"})
        client.send("ping")
        assert [client.read(), client.read()] == [Event("pong", {"text": "there?"}), Event("pong")]


@pytest.mark.parametrize("kind", ["detect", "run-pipeline", "played", "a-new-event", "info", "x" * 128])
def test_unknown_events_are_survived(wyoming: Wyoming, kind: str) -> None:
    with wyoming.dialled() as client:
        client.link.sendall(written(kind, {"what": {"ever": [1]}}, bytes(1000)))
        client.send("describe")
        event = client.read()
        assert event is not None
        assert event.type == "info"


def test_stops_without_a_start_are_survived(wyoming: Wyoming) -> None:
    with wyoming.dialled() as client:
        for kind in ("audio-stop", "synthesize-chunk", "synthesize-stop"):
            client.send(kind, {"text": "x"})
        client.send("ping")
        assert [one.type for one in client.until("pong")] == ["synthesize-stopped", "pong"]


def two_voices() -> Pool:
    governor = considerate_governor()
    first = fake_spec("tts")
    second = dataclasses.replace(first, id="low", name="low")

    class Low(FAKES["tts"]):  # type: ignore[misc]
        SAMPLE_RATE = 8_000

    return Pool([ThreadHost(FAKES["tts"](first), governor), ThreadHost(Low(second), governor)], governor)


def test_a_program_is_selected() -> None:
    with speaking_wyoming(two_voices()) as running, running.dialled() as client:
        rates = []
        for name in ("low", "edgeserve"):
            client.send("select-program", {"name": name})
            client.send("synthesize", {"text": "One."})
            rates.append(client.until("audio-stop")[0].data["rate"])
        assert rates == [8_000, 24_000]
        client.send("select-program", {"name": "nothing"})
        assert client.until("error")[-1].data["code"] == "model_not_found"
