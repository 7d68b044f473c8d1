"""One child encodes for all answers: each is as if alone, and none harms another."""

from __future__ import annotations

import contextlib
import contextvars
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from support.children import gone
from support.decoders import living
from support.server import until
from support.sounds import melody
from support.speech import decoded

from edgeserve import clients
from edgeserve.audio import encode
from edgeserve.audio.apart import SHARED, SoundFilesApart
from edgeserve.audio.encode import Encoder
from edgeserve.audio.encoders import EncoderApart, Encoders
from edgeserve.audio.files import SoundFilesHere
from edgeserve.clients import Client, Groups
from edgeserve.errors import Busy, Cancelled, EngineFailure
from edgeserve.media.children import Children
from edgeserve.processes.launcher import make_launcher
from edgeserve.system import process
from edgeserve.units import GB, MB

pytestmark = pytest.mark.slow  # real encoders, in a process of their own

SAMPLES = (melody(1.5, 22_050) * 32767).astype("<i2").tobytes()
PARTS = [SAMPLES[start : start + 22_050] for start in range(0, len(SAMPLES), 22_050)]


@pytest.fixture(scope="module")
def files() -> Iterator[SoundFilesApart]:
    made = SoundFilesApart(Children(make_launcher(SHARED)))
    made.encoder("mp3", 24_000).end()  # so that there is a fork server
    yield made
    made.close()


def child_of(encoder: Encoder, before: set[int]) -> int:
    encoder.add(bytes(4800))
    (child,) = living() - before
    return child


@pytest.mark.parametrize("name", encode.FORMS)
@pytest.mark.parametrize("rate", [24_000, 22_050])
def test_a_child_writes_what_this_process_writes(files: SoundFilesApart, name: str, rate: int) -> None:
    made = []
    for one in (files, SoundFilesHere()):
        encoder = one.encoder(name, rate)
        made.append(b"".join([*map(encoder.add, PARTS), encoder.end()]))
        encoder.close()
    assert decoded(made[0], name)[0].tolist() == decoded(made[1], name)[0].tolist()


def test_answers_in_one_child_are_as_if_alone(files: SoundFilesApart) -> None:
    before, names = living(), [name for name in encode.FORMS if name != "wav"] * 2
    alone = {}
    for name in set(names):
        encoder = SoundFilesHere().encoder(name, 22_050)
        alone[name] = b"".join([*map(encoder.add, PARTS), encoder.end()])
    contexts = [contextvars.copy_context() for _ in names]
    for number, context in enumerate(contexts):
        context.run(clients.current.set, Client(address=f"192.0.2.{number}"))
    beside = [context.run(files.encoder, name, 22_050) for context, name in zip(contexts, names, strict=True)]
    made = [b""] * len(names)
    for part in PARTS:
        made = [sofar + encoder.add(part) for sofar, encoder in zip(made, beside, strict=True)]
    assert len(living() - before) == 1
    made = [sofar + encoder.end() for sofar, encoder in zip(made, beside, strict=True)]
    for name, sound in zip(names, made, strict=True):
        assert decoded(sound, name)[0].tolist() == decoded(alone[name], name)[0].tolist()
    assert living() == before


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_eight_encoders_take_little_more_than_one(files: SoundFilesApart) -> None:
    """Each had a process of 6 to 8 MB: unread answers took the memory of another client's request."""
    with contextlib.ExitStack() as stack:
        before, sizes = living(), []
        for _ in range(8):
            encoder = files.encoder("mp3", 22_050)
            stack.callback(encoder.close)
            child = child_of(encoder, before)
            sizes.append(process.read(pid=str(child)).own)
        assert sizes[-1] - sizes[0] < 12 * MB


def test_the_failure_of_one_answer_is_its_own(files: SoundFilesApart) -> None:
    whole, half = files.encoder("mp3", 24_000), files.encoder("mp3", 24_000)
    begun = whole.add(SAMPLES)
    with pytest.raises(EngineFailure, match="the encoder failed on this request"):
        half.add(b"1")  # no sample
    half.close()
    assert decoded(begun + whole.end(), "mp3")[0].any()


def test_no_answer_gets_the_sound_of_another(files: SoundFilesApart) -> None:
    """One was interrupted as it waited for its bytes."""
    first, second = files.encoder("mp3", 24_000), files.encoder("mp3", 24_000)
    assert isinstance(first, EncoderApart)
    first._child.helper.send(first._head, SAMPLES, number=first._number)
    with pytest.raises(EngineFailure):
        second.add(SAMPLES)
    first.close()
    second.close()
    files.encoder("mp3", 24_000).end()


@pytest.mark.parametrize(("name", "rate"), [("wav", 22_050), ("pcm", 24_000)])
def test_plain_samples_need_no_child(files: SoundFilesApart, name: str, rate: int) -> None:
    before = living()
    encoder = files.encoder(name, rate)
    encoder.add(bytes(4800))
    assert living() == before
    encoder.end()


def test_the_child_ends_with_its_last_encoder(files: SoundFilesApart) -> None:
    before = living()
    first = files.encoder("mp3", 24_000)
    child, second = child_of(first, before), files.encoder("opus", 24_000)
    first.close()
    first.close()
    with pytest.raises(Cancelled):
        first.add(bytes(4800))
    assert not gone(child)
    second.add(bytes(4800))
    second.close()
    assert gone(child)


def test_a_child_that_dies_is_no_fault_of_the_client_and_another_follows(files: SoundFilesApart) -> None:
    before = living()
    encoder = files.encoder("mp3", 24_000)
    child = child_of(encoder, before)
    os.kill(child, signal.SIGSEGV)
    until(lambda: gone(child))
    with pytest.raises(EngineFailure, match=r"encoding failed: its process ended early \(SIGSEGV\)"):
        encoder.add(bytes(4800))
    other = files.encoder("mp3", 24_000)
    assert child_of(other, before) != child
    encoder.close()
    assert other.add(SAMPLES) + other.end()
    assert living() == before


def taken(encoders: Encoders, groups: Groups, places: int) -> int:
    count = 0
    with contextlib.suppress(Busy):
        while count < 99:
            encoders._take(groups, places)
            count += 1
    return count


@pytest.mark.parametrize(("places", "counts"), [(1, [4, 2, 1]), (3, [2, 1, 0])])
def test_two_clients_leave_encoders_to_a_third(places: int, counts: list[int]) -> None:
    """Each of two had half of all, as long as it read slowly."""
    encoders = Encoders(Children(make_launcher(SHARED)), GB, places=8)
    clients = [Client(address=f"192.0.2.{number}").groups for number in range(3)]
    assert [taken(encoders, groups, places) for groups in clients] == counts
    assert len(encoders._shares) == sum(counts) * places


@pytest.mark.parametrize(("megabytes", "places"), [(365, 5), (512, 4), (2048, 1), (32 * 1024, 1), (16, 8)])
def test_large_encoders_take_more_places_on_a_small_machine(megabytes: int, places: int) -> None:
    encoders = Encoders(Children(make_launcher(SHARED)), megabytes * MB)
    assert encoders._places_of("flac") == places
    assert encoders._places_of("mp3") == (1 if megabytes > 16 else 8)


def test_encoders_are_limited() -> None:
    files = SoundFilesApart(Children(make_launcher(SHARED)), encoders=2)
    first, other = files.encoder("mp3", 24_000), contextvars.copy_context()
    with pytest.raises(Busy, match="your answers hold 1 of 2 places"):
        files.encoder("mp3", 24_000)
    other.run(clients.current.set, Client(address="192.0.2.7"))
    second = other.run(files.encoder, "opus", 24_000)
    with pytest.raises(Busy, match="all 2 places of encoders are taken"):
        files.encoder("mp3", 24_000)
    files.encoder("wav", 24_000).end()
    first.close()
    files.encoder("mp3", 24_000).end()
    second.end()
    for name in ("flac", "aac"):
        files.encoder(name, 24_000).end()
    files.close()
