"""Pulls of a server: one a model, few at a time, shared, cancelled, and gone on with later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.http_files import Files
from support.server import until
from support.store import GGUF

from edgeserve.errors import Busy, DiskFull, InUse, InvalidRequest, NotFound, ShuttingDown, SourceUnavailable
from edgeserve.models.pace import WINDOW_SECONDS
from edgeserve.models.pull import LET_GO_SECONDS, Pull, PullState
from edgeserve.models.pulls import Pulls
from edgeserve.models.sources.source import Progress
from edgeserve.models.store import Store

LARGE = GGUF + bytes(3 << 20)


@pytest.fixture
def pulls(models: Store) -> Iterator[Pulls]:
    found = Pulls(models, at_once=2, most=4, kept=3)
    yield found
    found.stop()


@pytest.fixture
def slow(files: Files) -> Iterator[Files]:
    """Files whose bodies stop after 1 KB until the gate opens."""
    files.gate = threading.Event()
    yield files
    files.gate.set()


def ended(pull: Pull) -> PullState:
    assert pull.wait(20), pull.state
    return pull.state


def test_a_pull_ends_with_its_model(pulls: Pulls, models: Store, files: Files) -> None:
    pull = pulls.start(f"{files.url}/one.gguf")
    state = ended(pull)
    assert (state.stage, state.part, state.error) == ("success", "one", None)
    assert state.stored == models.find("one")
    until(lambda: pulls.all() == (pull,))


def test_two_who_ask_for_one_model_share_its_pull(pulls: Pulls, slow: Files) -> None:
    first = pulls.start(f"{slow.url}/one.gguf")
    assert pulls.start(f"{slow.url}/one.gguf") is first
    assert slow.gate
    slow.gate.set()
    assert ended(first).stage == "success"
    assert slow.gets("/one.gguf") == 1


def test_the_last_who_lets_go_cancels(pulls: Pulls, slow: Files) -> None:
    pull = pulls.start(f"{slow.url}/one.gguf")
    pulls.start(f"{slow.url}/one.gguf")
    pull.let_go()
    assert not pull.state.over
    pull.let_go()
    assert pull.state.stage == "cancelled"


def test_who_comes_as_the_last_one_lets_go_has_a_pull_of_its_own(
    pulls: Pulls, slow: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pulls.start(f"{slow.url}/one.gguf")
    joins = Pull.hold

    def late(pull: Pull) -> object:
        if pull is first:
            first.let_go()  # between the look at its state and the hold
        return joins(pull)

    with monkeypatch.context() as patched:
        patched.setattr(Pull, "hold", late)
        second = pulls.start(f"{slow.url}/one.gguf")
    assert (first.state.stage, second.state.over) == ("cancelled", False)
    assert slow.gate
    slow.gate.set()
    assert ended(second).stage == "success"


def test_a_cancelled_pull_goes_on_where_it_stopped(pulls: Pulls, models: Store, slow: Files) -> None:
    slow.data["/one.gguf"] = LARGE
    first = pulls.start(f"{slow.url}/one.gguf")
    until(slow.begun.is_set)
    assert first.cancel()
    assert slow.gate
    slow.gate.set()
    until(lambda: first not in pulls.running)
    assert [one.name for one in models.leftovers()] == ["one"]
    assert ended(pulls.start(f"{slow.url}/one.gguf")).stage == "success"
    ranges = [wanted for method, path, wanted in slow.requests if path == "/one.gguf"]
    assert ranges[0] is None
    assert ranges[-1] is not None
    assert ranges[-1] != "bytes=0-"
    assert models.find("one").files["model"].read_bytes() == LARGE


def test_pulls_beyond_those_at_once_wait_and_beyond_the_most_are_refused(pulls: Pulls, slow: Files) -> None:
    names = ("one", "two", "hibari", "whisper")
    found = [pulls.start(f"{slow.url}/{name}.gguf") for name in names]
    assert [one.state.stage for one in found[2:]] == ["queued", "queued"]
    with pytest.raises(Busy, match="4 pulls run or wait"):
        pulls.start(f"{slow.url}/starter.gguf")
    assert found[3].cancel()
    found.append(pulls.start(f"{slow.url}/starter.gguf"))
    assert slow.gate
    slow.gate.set()
    assert [ended(one).stage for one in found] == ["success"] * 3 + ["cancelled", "success"]
    until(lambda: len(pulls.all()) == 3)  # no more are kept


def test_a_name_that_is_pulled_from_elsewhere_is_in_use(pulls: Pulls, slow: Files) -> None:
    slow.data["/other/one.gguf"] = GGUF
    pulls.start(f"{slow.url}/one.gguf?token=secret")
    with pytest.raises(InUse, match=r"one is being pulled from http://.*/one\.gguf:") as caught:
        pulls.start(f"{slow.url}/other/one.gguf")
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("what", "kind"),
    [("/etc/passwd", InvalidRequest), ("./one.gguf", InvalidRequest), ("~/x", InvalidRequest), ("hibary", NotFound),
     ("", NotFound), ("starter", NotFound), ("hub:x", NotFound), ("http://[", InvalidRequest),
     ("https://x/y.bin", InvalidRequest)],
)  # fmt: skip
def test_only_sources_elsewhere_are_pulled(pulls: Pulls, what: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        pulls.start(what)
    assert pulls.all() == ()


def test_a_path_that_exists_is_answered_as_one_that_does_not(pulls: Pulls, tmp_path: Path) -> None:
    (tmp_path / "here.gguf").write_bytes(GGUF)
    told = []
    for name in ("here", "gone"):
        with pytest.raises(InvalidRequest) as caught:
            pulls.start(str(tmp_path / f"{name}.gguf"))
        told.append(caught.value.message.replace(name, ""))
    assert told[0] == told[1]


def test_a_failure_is_the_end_with_its_words(pulls: Pulls, files: Files) -> None:
    state = ended(pulls.start(f"{files.url}/none.gguf"))
    assert state.stage == "failed"
    assert state.error is not None
    assert "answered 404" in state.error.message


@pytest.mark.unforeseen
def test_an_unforeseen_failure_is_an_end_too(pulls: Pulls, models: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*ignored: object, **named: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(models, "pull", broken)
    state = ended(pulls.start("hibari"))
    assert state.error is not None
    assert "ZeroDivisionError" in state.error.message


def test_a_full_disk_is_said_before_the_pull(tmp_path: Path) -> None:
    pulls = Pulls(Store(tmp_path, free=lambda path: 1000))
    with pytest.raises(DiskFull, match="0 MB are free"):
        pulls.start("hibari")
    assert pulls.all() == ()


def test_the_end_of_the_server_cancels_all(pulls: Pulls, slow: Files) -> None:
    pull = pulls.start(f"{slow.url}/one.gguf")
    until(slow.begun.is_set)
    pulls.stop(0)
    assert pull.state.stage == "cancelled"
    with pytest.raises(ShuttingDown):
        pulls.start(f"{slow.url}/two.gguf")


def test_a_pull_is_found_by_its_name_and_by_its_source(pulls: Pulls, files: Files) -> None:
    pull = pulls.start(f"{files.url}/one.gguf")
    ended(pull)
    until(lambda: not pulls.running)
    assert pulls.find("ONE") is pull
    assert pulls.find(f"{files.url}/one.gguf") is pull
    with pytest.raises(NotFound, match="no pull of 'two'"):
        pulls.find("two")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def followed(clock: Callable[[], float]) -> tuple[Pull, list[PullState]]:
    pull = Pull("m", "m", "somewhere", clock)
    told: list[PullState] = []
    pull.follow(lambda: told.append(pull.state))
    return pull, told


def test_a_fast_disk_does_not_flood_its_followers() -> None:
    clock = Clock()
    pull, told = followed(clock)
    for done in range(1000):
        pull.progressed(Progress("m", "download", done, 1000))
        clock.now += 0.01
    pull.progressed(Progress("m", "verify", 0, 1000))
    assert 40 < len(told) < 60
    assert told[-1].stage == "verify"
    assert pull.state.done == 0


def test_a_source_that_trickles_loses_its_place(models: Store, slow: Files, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    pulls = Pulls(models, at_once=1, clock=clock)
    first, next_one = pulls.start(f"{slow.url}/one.gguf"), pulls.start(f"{slow.url}/two.gguf")
    assert slow.begun.wait(20)
    until(lambda: first.state.done == 1024)
    clock.now = WINDOW_SECONDS - 1
    pulls.look()
    assert (first.state.stage, next_one.state.stage) == ("download", "queued")
    clock.now = WINDOW_SECONDS
    pulls.look()
    error = ended(first).error
    assert first.state.stage == "failed"
    assert isinstance(error, SourceUnavailable)
    assert f"{slow.url}/one.gguf sent 1024 bytes in 300 s" in error.message
    assert "its source sends next to nothing" in caplog.text
    until(lambda: next_one.state.stage == "download")
    with pytest.raises(InUse, match="an earlier pull of one was given up"):
        pulls.start(f"{slow.url}/one.gguf")
    assert slow.gate
    slow.gate.set()
    assert ended(next_one).stage == "success"
    until(lambda: isinstance(begun(pulls, f"{slow.url}/one.gguf"), Pull))
    assert ended(pulls.find("one")).stage == "success"
    assert str(slow.requests[-1][2]).startswith("bytes=")
    pulls.stop()


def begun(pulls: Pulls, what: str) -> Pull | InUse:
    try:
        return pulls.start(what)
    except InUse as error:
        return error


def test_a_cancelled_pull_keeps_its_place_for_half_a_minute(models: Store, slow: Files) -> None:
    clock = Clock()
    pulls = Pulls(models, at_once=1, clock=clock)
    first, next_one = pulls.start(f"{slow.url}/one.gguf"), pulls.start(f"{slow.url}/two.gguf")
    until(lambda: first.state.done == 1024)
    first.cancel()
    pulls.look()
    assert next_one.state.stage == "queued"
    clock.now = LET_GO_SECONDS
    pulls.look()
    assert first.state.stage == "cancelled"
    assert pulls.running == (next_one,)
    pulls.stop(0)


def test_only_downloads_have_a_pace() -> None:
    clock = Clock()
    pull, _ = followed(clock)
    for stage in ("wait", "verify", "convert", "prepare"):
        pull.progressed(Progress("m", stage, 1, 2))
        clock.now += 2 * WINDOW_SECONDS
        assert not pull.give_up()
    pull.progressed(Progress("m", "download", 1, 2))
    assert not pull.give_up()


def test_the_last_stage_is_not_cancelled() -> None:
    pull, told = followed(Clock())
    pull.progressed(Progress("m", "prepare", 1, 2))
    assert not pull.cancel()
    pull.progressed(Progress("m", "prepare", 2, 2))
    assert [one.stage for one in told] == ["prepare"]
