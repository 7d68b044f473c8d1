"""Slots of a real small model, saved, restored and erased by hand."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from support.hot import hot_engines

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama import managing
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.state_files import owner_of
from edgeserve.engines.llama.states import StateFiles
from edgeserve.errors import Busy, DiskFull, Forbidden, InvalidRequest, NotFound, NotSupported
from edgeserve.messages import ChatRequest, FinishEvent, Sampling, SlotEvent, SlotRequest

pytestmark = pytest.mark.models
STORY = "The lighthouse keeper wrote down every ship that passed, its flag, its cargo and the weather. " * 4


@pytest.fixture(scope="module")
def engines(
    pulled: Callable[[str], Mapping[str, Path]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., LlamaChat]]:
    def build(**options: object) -> LlamaChat:
        folder = tmp_path_factory.mktemp("states")
        given = {"context": 512, "prefix_cache_dir": str(folder), **options}
        files = {"model": pulled("smollm2-135m-instruct")["model"]}
        return LlamaChat(ModelSpec("llm", "x", "x:X", files, threads=2, options=given))

    with hot_engines(build) as make:
        yield make


@pytest.fixture(scope="module")
def shared_engine(engines: Callable[..., LlamaChat]) -> LlamaChat:
    return engines()


@pytest.fixture
def engine(shared_engine: LlamaChat) -> LlamaChat:
    """With four empty slots, and no saved states."""
    for slot in range(4):
        for salt in ("", "me", "you", "them"):
            with contextlib.suppress(Forbidden):
                do(shared_engine, "erase", slot, salt=salt)
    assert held(shared_engine) == [0] * 4
    return shared_engine


def say(engine: LlamaChat, salt: str = "", story: str = STORY) -> int:
    """Tokens that came from a cache."""
    request = ChatRequest(prompt=story, max_tokens=2, sampling=Sampling(temperature=0.0), salt=salt)
    *_, finish = engine.chat(request, threading.Event())
    assert isinstance(finish, FinishEvent)
    return finish.cached_tokens


def do(engine: LlamaChat, action: str, slot: int = 0, filename: str = "mine", salt: str = "") -> SlotEvent:
    (event,) = engine.manage_slot(SlotRequest(action, slot, filename, salt), threading.Event())  # type: ignore[arg-type]
    return event


def held(engine: LlamaChat) -> list[int]:
    return [one.tokens for one in engine.slot_states()]


def test_a_conversation_goes_on_in_another_slot(engine: LlamaChat) -> None:
    assert say(engine, "me") == 0
    [tokens] = filter(None, held(engine))
    slot = held(engine).index(tokens)
    saved = do(engine, "save", slot, salt="me")
    assert (saved.tokens, saved.size > 100_000) == (tokens, True)
    assert do(engine, "erase", slot, salt="me").tokens == tokens
    assert held(engine) == [0] * 4
    assert say(engine, "me") == 0, "an erased conversation is forgotten everywhere"
    for number in range(4):
        do(engine, "erase", number, salt="me")
    assert do(engine, "restore", 3, salt="me").tokens == tokens
    assert held(engine) == [0, 0, 0, tokens]
    assert say(engine, "me") > 60


def test_a_client_erases_no_conversation_of_another(engine: LlamaChat) -> None:
    """Any client could cost all others what the server knew of their conversations, in memory and on disk."""
    assert say(engine, "me/1") == 0
    [number] = [at for at, tokens in enumerate(held(engine)) if tokens]
    for stranger in ("you/1", "you", "", "/1"):
        with pytest.raises(Forbidden, match=f"slot {number} holds a conversation of another client or key"):
            do(engine, "erase", number, salt=stranger)
    assert say(engine, "me/1") > 60
    assert do(engine, "erase", number, salt="me/2").tokens > 60, "its own, by any key of its caches"
    assert say(engine, "me/1") == 0
    [number] = [at for at, tokens in enumerate(held(engine)) if tokens]
    do(engine, "erase", number, salt="me")
    assert say(engine) == 0
    [number] = [at for at, tokens in enumerate(held(engine)) if tokens]
    assert do(engine, "erase", number, salt="you/1").tokens > 60, "without a key or a name it is everybody's"


def pinned(number: int, salt: str = "", story: str = STORY) -> ChatRequest:
    return ChatRequest(prompt=story, max_tokens=8, sampling=Sampling(temperature=0.0), salt=salt, slot=number)


def ending(engine: LlamaChat, request: ChatRequest) -> FinishEvent:
    *_, finish = engine.chat(request, threading.Event())
    assert isinstance(finish, FinishEvent)
    return finish


def test_a_conversation_gets_the_slot_that_its_request_names(engine: LlamaChat) -> None:
    assert ending(engine, pinned(2)).slot == 2
    tokens = held(engine)[2]
    assert held(engine) == [0, 0, tokens, 0]
    moved = ending(engine, pinned(0))
    assert (moved.slot, moved.cached_tokens > 60) == (0, True)
    assert held(engine) == [tokens, 0, 0, 0]
    assert do(engine, "save", 0).tokens == tokens
    with pytest.raises(InvalidRequest, match="slots 0 to 3, and no slot 4") as caught:
        ending(engine, pinned(4))
    assert caught.value.param == "id_slot"


def test_a_slot_of_ones_choice_costs_no_other_client_its_conversation(engine: LlamaChat) -> None:
    ending(engine, pinned(0, "me"))
    for number in (0, 0, 0):
        taken = ending(engine, pinned(number, "you", "Once upon a time there was a small box. " * 8))
        assert taken.slot == 0
    assert taken.cached_tokens > 60
    with pytest.raises(Forbidden, match="another client"):
        do(engine, "save", 0, salt="me")
    assert sum(tokens > 0 for tokens in held(engine)) == 2, "nobody had to leave the context"
    assert say(engine, "me") > 60
    assert ending(engine, pinned(0, "them")).cached_tokens == 0


def test_the_latest_of_two_answers_has_the_number(engine: LlamaChat) -> None:
    first = engine.chat(pinned(1, "me"), threading.Event())
    next(first)
    assert ending(engine, pinned(1, "you")).slot == 1
    *_, finish = first
    assert isinstance(finish, FinishEvent)
    assert finish.slot != 1


def test_a_conversation_of_another_client_is_neither_saved_nor_restored(engine: LlamaChat) -> None:
    say(engine, "me")
    slot = next(number for number, tokens in enumerate(held(engine)) if tokens)
    with pytest.raises(Forbidden, match="another client"):
        do(engine, "save", slot, "theirs", salt="you")
    do(engine, "save", slot, "ours", salt="me")
    with pytest.raises(NotFound, match="no saved slot 'ours'"):
        do(engine, "restore", 1, "ours", salt="you")
    assert say(engine, "you") == 0


def test_what_cannot_be_is_refused(engine: LlamaChat, engines: Callable[..., LlamaChat]) -> None:
    for slot in (-1, 4):
        with pytest.raises(InvalidRequest, match="slots 0 to 3"):
            do(engine, "save", slot)
    with pytest.raises(InvalidRequest, match="slot 2 is empty"):
        do(engine, "save", 2)
    with pytest.raises(NotFound):
        do(engine, "restore", 0, "never saved")
    for options in ({"prefix_cache_disk_mb": 0}, {"prefix_cache_dir": ""}):
        without = engines(**options)
        say(without)
        with pytest.raises(NotSupported, match="prefix_cache_disk_mb"):
            do(without, "save")
    tight = engines(prefix_cache_disk_mb=1)
    say(tight)
    with pytest.raises(DiskFull, match="may take 1 MB"):
        do(tight, "save")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda data: data[:-1], "damaged"),
        (lambda data: data[:-50] + bytes(50), "checksum"),
        (lambda data: data[:8] + bytes(32) + data[40:], "another model"),
        (lambda data: data[:40] + bytes(32) + data[72:], "damaged"),
        (lambda data: b"", "requires a buffer"),
    ],
    ids=["cut", "changed", "other model", "other salt", "empty"],
)
def test_a_file_that_somebody_changed_is_of_no_use(
    engine: LlamaChat, harm: Callable[[bytes], bytes], words: str
) -> None:
    say(engine)
    slot = next(number for number, tokens in enumerate(held(engine)) if tokens)
    do(engine, "save", slot)
    [path] = Path(str(engine.spec.options["prefix_cache_dir"])).rglob(f"{owner_of('')}-mine.slot")
    path.write_bytes(harm(path.read_bytes()))
    before = held(engine)
    with pytest.raises(InvalidRequest, match=words):
        do(engine, "restore", 1)
    assert held(engine) == before


def test_a_conversation_larger_than_the_context_is_refused(
    engine: LlamaChat, engines: Callable[..., LlamaChat]
) -> None:
    say(engine, story=STORY * 4)
    slot = next(number for number, tokens in enumerate(held(engine)) if tokens > 256)
    do(engine, "save", slot)
    small = engines(context=256, prefix_cache_dir=engine.spec.options["prefix_cache_dir"])
    with pytest.raises(InvalidRequest, match=r"holds 3.. tokens; the context holds 256"):
        do(small, "restore", 0)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set, it lets a disk go on that reads and writes nothing more."""
    go = threading.Event()
    for name in ("keep", "kept"):
        whole = getattr(StateFiles, name)

        def slow(files: StateFiles, *given: object, whole: Callable[..., object] = whole) -> object:
            assert go.wait(20)
            return whole(files, *given)

        monkeypatch.setattr(StateFiles, name, slow)
    yield go
    go.set()


def test_a_state_is_copied_into_memory_that_was_made_ready(engine: LlamaChat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managing, "LARGE", 1)
    say(engine, "me")
    slot = next(number for number, tokens in enumerate(held(engine)) if tokens)
    saved = do(engine, "save", slot, "ready", salt="me")
    do(engine, "erase", slot, salt="me")
    assert do(engine, "restore", 3, "ready", salt="me").tokens == saved.tokens == held(engine)[3]


def test_answers_go_on_while_a_slow_disk_saves_and_restores(engine: LlamaChat, disk: threading.Event) -> None:
    say(engine, "me")
    slot = next(number for number, tokens in enumerate(held(engine)) if tokens)
    saving = engine.run(SlotRequest("save", slot, "slow", "me"), threading.Event())
    assert next(saving) is None
    assert say(engine, "you", "Once upon a time there was a disk.") == 0
    restoring = engine.run(SlotRequest("restore", 3, "slow", "me"), threading.Event())
    assert next(restoring) is None
    assert say(engine, "you", "Once upon a time there was another disk.") < 10
    disk.set()
    (saved,) = filter(None, saving)
    (restored,) = filter(None, restoring)
    assert isinstance(saved, SlotEvent)
    assert isinstance(restored, SlotEvent)
    assert saved.tokens == restored.tokens == held(engine)[3] > 60


def test_a_slot_that_was_taken_meanwhile_is_not_restored(engine: LlamaChat, disk: threading.Event) -> None:
    disk.set()
    say(engine, "me")
    slot = next(number for number, tokens in enumerate(held(engine)) if tokens)
    do(engine, "save", slot, "taken", salt="me")
    disk.clear()
    restoring = engine.run(SlotRequest("restore", 3, "taken", "me"), threading.Event())
    assert next(restoring) is None
    answers = [engine.run(ChatRequest(prompt=f"{number} ships"), threading.Event()) for number in range(4)]
    assert [next(answer) for answer in answers] == [None] * 4
    disk.set()
    with pytest.raises(Busy, match="slot 3 is making an answer"):
        list(restoring)
    for answer in answers:
        answer.close()
