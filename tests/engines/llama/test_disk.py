"""A real small model whose conversations outlast memory and the engine, on disk."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest
from support.hot import hot

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama import background
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.states import WORTH_STORING, StateFiles
from edgeserve.messages import ChatEvent, ChatRequest, ContextEvent, FinishEvent, Sampling, TokenEvent

pytestmark = pytest.mark.models
STORY = "The lighthouse keeper wrote down every ship that passed, its flag, its cargo and the weather. " * 4
STORY += "The lighthouse"
OTHER = "Recipes for bread begin with flour, water, salt and yeast; the rest is time and patience. " * 4
OTHER += "Recipes for"


@pytest.fixture
def engine(pulled: Callable[[str], Mapping[str, Path]], tmp_path: Path) -> Iterator[Callable[..., LlamaChat]]:
    """Makes engines, hot, one after the other."""
    before = contextlib.ExitStack()

    def build(**options: object) -> LlamaChat:
        before.close()
        disk = {"prefix_cache_disk_mb": 64, "prefix_cache_dir": str(tmp_path)}
        files = {"model": pulled("smollm2-135m-instruct")["model"]}
        options = {"context": 1024, **disk, **options}
        spec = ModelSpec("llm", "smollm2", "edgeserve.engines.llama.chat:LlamaChat", files, threads=2, options=options)
        return before.enter_context(hot(LlamaChat(spec)))

    with before:
        yield build


def say(engine: LlamaChat, prompt: str) -> tuple[str, int]:
    """The text, and how many prompt tokens were in a cache."""
    request = ChatRequest(prompt=prompt, max_tokens=8, sampling=Sampling(temperature=0.0))
    *events, finish = engine.chat(request, threading.Event())
    assert isinstance(finish, FinishEvent)
    return "".join(one.text for one in events if isinstance(one, TokenEvent)), finish.cached_tokens


def test_a_conversation_goes_on_in_a_new_engine(engine: Callable[..., LlamaChat], tmp_path: Path) -> None:
    first, cached = say(engine(), STORY)
    assert cached == 0
    again, cached = say(engine(), STORY + first)
    assert cached > 80
    without, cached = say(engine(prefix_cache_disk_mb=0), STORY + first)
    assert (cached, again) == (0, without)
    assert list((tmp_path / "llm").iterdir())
    assert say(engine(kv_type="q8_0"), STORY)[1] == 0, "other settings, other states"
    assert say(engine(), STORY)[1] > 60, "which leave each other alone"


def test_by_default_a_conversation_outlasts_its_engine_and_a_hello_does_not(
    engine: Callable[..., LlamaChat], tmp_path: Path
) -> None:
    say(engine(prefix_cache_disk_mb="auto"), "Hello")
    assert say(engine(prefix_cache_disk_mb="auto"), STORY)[1] < WORTH_STORING
    [path] = (tmp_path / ".shared" / "llm").iterdir() if engine(prefix_cache_disk_mb=0) else []
    assert say(engine(prefix_cache_disk_mb="auto"), STORY)[1] > 60
    path.write_bytes(path.read_bytes()[:-100] + bytes(100))
    assert say(engine(prefix_cache_disk_mb="auto"), STORY)[1] == 0


def test_a_state_larger_than_the_context_is_not_read(engine: Callable[..., LlamaChat], tmp_path: Path) -> None:
    say(engine(prefix_cache_disk_mb="auto"), STORY * 4)
    small = engine(prefix_cache_disk_mb="auto", context=256)
    assert small.context_tokens == 256
    text, cached = say(small, STORY)
    assert (text != "", cached) == (True, 0)


@pytest.mark.parametrize("options", [{"prefix_cache_mb": 0}, {"prefix_cache_mb": 3}, {}])
def test_what_memory_has_no_room_for_comes_back_from_disk(
    engine: Callable[..., LlamaChat], tmp_path: Path, options: dict[str, object]
) -> None:
    one = engine(parallel=1, **options)
    texts = [say(one, prompt)[0] for prompt in (STORY, OTHER)]
    one.park()
    one.shed("prefix_cache", one.savings()["prefix_cache"])
    assert one.savings()["prefix_cache"] == 0
    assert len(list((tmp_path / "llm").iterdir())) == 2
    one.heat()
    for prompt, text in zip((STORY, OTHER, STORY), (*texts, texts[0]), strict=True):
        again, cached = say(one, prompt)
        assert cached > 60
        assert again == text


def beside_a_saved_story(one: LlamaChat) -> Generator[ContextEvent | None, None, None]:
    """A stream under way, while the story has left both slots."""
    say(one, STORY)
    stream = one.run(ChatRequest(prompt="Once upon a time", max_tokens=200), threading.Event())
    list(told(one, stream, 2))
    say(one, OTHER)
    return stream


def test_streams_go_on_while_a_slow_disk_reads_a_conversation(
    engine: Callable[..., LlamaChat], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = engine(parallel=2, prefix_cache_mb=0)
    stream = beside_a_saved_story(one)
    go, ahead = threading.Event(), StateFiles.read_ahead
    monkeypatch.setattr(StateFiles, "read_ahead", lambda *given: go.wait(60) and ahead(*given))
    again = one.run(ChatRequest(prompt=STORY, max_tokens=4), threading.Event())
    assert next(again) is None
    for _ in told(one, stream, 5):
        assert next(again) is None
    go.set()
    *_, finish = filter(None, stepping(one, again))
    assert isinstance(finish, FinishEvent)
    assert finish.cached_tokens > 60
    stream.close()


def test_a_conversation_on_disk_is_answered_where_no_thread_can_be_started(
    engine: Callable[..., LlamaChat], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = engine(parallel=2, prefix_cache_mb=0)
    stream = beside_a_saved_story(one)
    tried: list[object] = []

    class NoThreads:
        def submit(self, *work: object) -> None:
            tried.append(work)
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(background, "computing", NoThreads)
    *_, finish = filter(None, stepping(one, one.run(ChatRequest(prompt=STORY, max_tokens=4), threading.Event())))
    assert isinstance(finish, FinishEvent)
    assert finish.cached_tokens > 60
    assert len(tried) == 1
    stream.close()


def stepping(engine: LlamaChat, events: Iterator[ChatEvent | None]) -> Iterator[ChatEvent | None]:
    for event in events:
        if event is None:
            engine.step()
        yield event


def told(engine: LlamaChat, events: Iterator[ChatEvent | None], count: int) -> Iterator[ChatEvent]:
    """The next ``count`` events of an answer."""
    return itertools.islice(filter(None, stepping(engine, events)), count)
