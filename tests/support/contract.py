"""The one suite that every engine passes. A test class names its engine and inherits the suite of its job.

class TestLlama(ChatContract):
    @pytest.fixture
    def spec(self, pulled): return ModelSpec(job="llm", ...)
    make = staticmethod(LlamaChat)          # spec -> engine
"""

from __future__ import annotations

import dataclasses
import math
import pickle
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import pytest

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engine_abilities import Thrifty
from edgeserve.errors import ContextOverflow, EngineFailure, InvalidRequest
from edgeserve.messages import (
    AudioEvent,
    ChatRequest,
    EmbeddingEvent,
    EmbedRequest,
    FinishEvent,
    Message,
    Pcm,
    PromptEvent,
    RerankEvent,
    RerankRequest,
    Rest,
    Sampling,
    SegmentEvent,
    SpeakRequest,
    TextPart,
    TokenEvent,
    TranscribeRequest,
    TranscriptEnd,
)


def ask(text: str, **settings: Any) -> ChatRequest:
    return ChatRequest(messages=(Message("user", (TextPart(text),)),), **settings)


class EngineContract:
    """Lifecycle: the rungs, the order of the steps, and that nothing is lost on the way."""

    make: ClassVar[Callable[[ModelSpec], Any]]

    @pytest.fixture
    def engine(self, spec: ModelSpec) -> Iterator[Any]:
        engine = type(self).make(spec)
        yield engine
        engine.close()

    @pytest.fixture(scope="class")
    @classmethod
    def kept(cls) -> Iterator[list[Any]]:
        """The engine that the tests of the class share, if one of them has made it."""
        kept: list[Any] = []
        yield kept
        for engine in kept:
            engine.close()

    @pytest.fixture
    def hot(self, spec: ModelSpec, kept: list[Any]) -> Any:
        """An engine that other tests of the class use too; a test may leave it on any rung."""
        if kept and kept[0].spec != spec:
            kept.pop().close()
        if not kept:
            kept.append(type(self).make(spec))
        kept[0].open()
        kept[0].heat()
        return kept[0]

    @pytest.fixture
    def alone(self, engine: Any, kept: list[Any]) -> Any:
        """A cold engine while no other of the class is open: a footprint counts all mappings of a file."""
        for other in kept:
            other.close()
        return engine

    def run(self, engine: Any, cancel: threading.Event) -> Iterator[Any]:
        """One small request of the engine's job."""
        raise NotImplementedError

    def test_construction_is_cold_and_takes_nothing(self, engine: Any) -> None:
        assert engine.rung is Rung.COLD
        assert engine.footprint().total == 0

    def test_spec_and_events_are_picklable(self, hot: Any) -> None:
        assert pickle.loads(pickle.dumps(hot.spec)) == hot.spec
        events = list(self.run(hot, threading.Event()))
        assert pickle.loads(pickle.dumps(events)) == events

    def test_estimate_needs_no_open(self, engine: Any) -> None:
        assert engine.estimate().total > 0
        assert engine.rung is Rung.COLD

    def test_ladder_goes_up_and_down(self, engine: Any) -> None:
        engine.open()
        assert engine.rung >= Rung.WARM
        engine.heat()
        assert engine.rung is Rung.HOT
        engine.park()
        assert engine.rung <= Rung.WARM
        engine.close()
        assert engine.rung is Rung.COLD

    def test_steps_are_idempotent(self, hot: Any) -> None:
        hot.open()
        hot.heat()
        assert hot.rung is Rung.HOT
        hot.park()
        rung = hot.rung
        hot.park()
        assert hot.rung is rung
        hot.close()
        hot.close()
        assert hot.rung is Rung.COLD

    def test_running_below_hot_is_refused(self, engine: Any) -> None:
        with pytest.raises(EngineFailure):
            list(self.run(engine, threading.Event()))

    def test_answers_are_the_same_after_park_and_after_close(self, hot: Any) -> None:
        first = list(self.run(hot, threading.Event()))
        hot.park()
        hot.open()
        hot.heat()
        after_park = list(self.run(hot, threading.Event()))
        hot.close()
        hot.open()
        hot.heat()
        after_close = list(self.run(hot, threading.Event()))
        assert self.essence(first) == self.essence(after_park) == self.essence(after_close)

    def essence(self, events: list[Any]) -> Any:
        """The part that must be equal between two answers to one request."""
        return events

    def test_what_is_offered_can_be_saved_and_answers_stay_the_same(self, hot: Any) -> None:
        """An engine that offers no savings has nothing to prove."""
        first = list(self.run(hot, threading.Event()))
        offered = hot.savings() if isinstance(hot, Thrifty) else {}
        assert set(offered) <= {"prefix_cache", "reordered", "copy", "draft", "optional_context", "context", "image"}
        for kind, saved in offered.items():
            rung = hot.rung
            hot.shed(kind, saved)
            assert hot.rung is rung
            assert not hot.savings().get(kind)
        assert self.essence(list(self.run(hot, threading.Event()))) == self.essence(first)

    def test_cancel_before_the_start_yields_nothing_final(self, hot: Any) -> None:
        cancel = threading.Event()
        cancel.set()
        events = list(self.run(hot, cancel))
        assert not any(isinstance(event, FinishEvent | TranscriptEnd) for event in events)

    def test_engine_works_after_a_cancelled_and_an_abandoned_request(self, hot: Any) -> None:
        cancel = threading.Event()
        iterator = self.run(hot, cancel)
        next(iterator)
        cancel.set()
        list(iterator)
        abandoned = self.run(hot, threading.Event())
        next(abandoned)
        abandoned.close()  # type: ignore[attr-defined]
        assert list(self.run(hot, threading.Event()))

    def test_missing_file_fails_clearly_and_stays_cold(self, spec: ModelSpec, tmp_path: Any) -> None:
        if not spec.files:
            return
        gone = dict.fromkeys(spec.files, tmp_path / "gone.bin")
        engine = type(self).make(ModelSpec(spec.job, spec.name, spec.engine, gone, options=spec.options))
        with pytest.raises(EngineFailure, match=r"gone\.bin"):
            engine.open()
        assert engine.rung is Rung.COLD


class ChatContract(EngineContract):
    def run(self, engine: Any, cancel: threading.Event) -> Iterator[Any]:
        return engine.chat(ask("Count from one to five.", max_tokens=12, sampling=Sampling(temperature=0.0)), cancel)

    def essence(self, events: list[Any]) -> Any:
        return "".join(event.text for event in events if isinstance(event, TokenEvent))

    def test_answer_is_tokens_then_one_finish(self, hot: Any) -> None:
        *tokens, finish = list(self.run(hot, threading.Event()))
        assert tokens
        assert all(isinstance(token, TokenEvent) and token.text for token in tokens)
        assert isinstance(finish, FinishEvent)
        assert finish.prompt_tokens > 0
        assert 0 < finish.completion_tokens <= 12

    def test_max_tokens_one(self, hot: Any) -> None:
        finish = list(hot.chat(ask("Count from one to five.", max_tokens=1), threading.Event()))[-1]
        assert finish.reason == "length"
        assert finish.completion_tokens == 1

    def test_logprobs_come_with_their_tokens_when_asked_for(self, hot: Any) -> None:
        request = ask("Count from one to five.", max_tokens=8, sampling=Sampling(temperature=0.0), logprobs=4)
        *events, finish = hot.chat(request, threading.Event())
        told = [one for event in events for one in event.logprobs]
        assert b"".join(one.token.data for one in told).decode() == "".join(event.text for event in events)
        assert finish.completion_tokens - 1 <= len(told) <= finish.completion_tokens  # an end is a token without text
        for one in told:
            assert len(one.top) == 4
            chances = [other.logprob for other in one.top]
            assert chances == sorted(chances, reverse=True)
            assert one.token == one.top[0], "greedy"
            assert sum(math.exp(chance) for chance in chances) < 1 + 1e-6
        *events, _ = hot.chat(dataclasses.replace(request, logprobs=None), threading.Event())
        assert not any(event.logprobs for event in events)

    def test_tokens_are_a_prompt_too(self, hot: Any) -> None:
        finish = list(hot.chat(ChatRequest(prompt=(5, 6, 7), max_tokens=2), threading.Event()))[-1]
        assert finish.prompt_tokens == 3

    def test_vectors_in_order_of_length_one(self, hot: Any) -> None:
        def vectors(*inputs: Any) -> list[tuple[float, ...]]:
            events = list(hot.embed(EmbedRequest(inputs), threading.Event()))
            assert all(isinstance(event, EmbeddingEvent) and event.tokens > 0 for event in events)
            return [struct.unpack(f"<{len(event.vector) // 4}f", event.vector) for event in events]

        first, second, third = vectors("The cat sat on the mat.", "Prices rose.", (5, 6, 7))
        assert {len(first), len(second), len(third)} == {len(first)}
        assert all(math.hypot(*one) == pytest.approx(1.0, abs=1e-5) for one in (first, second, third))
        assert vectors("Prices rose.")[0] == pytest.approx(second, abs=1e-3)
        assert first != second

    def test_a_cancelled_embedding_ends(self, hot: Any) -> None:
        cancel = threading.Event()
        events = hot.embed(EmbedRequest(("one", "two", "three")), cancel)
        next(events)
        cancel.set()
        assert list(events) == []
        assert list(self.run(hot, threading.Event()))

    def test_embedding_below_hot_is_refused(self, engine: Any) -> None:
        with pytest.raises(EngineFailure):
            list(engine.embed(EmbedRequest(("one",)), threading.Event()))

    def test_a_prompt_is_counted_before_it_is_read_or_alone(self, hot: Any) -> None:
        request = ask("Count from one to five.", max_tokens=4, sampling=Sampling(temperature=0.0))
        plain = list(hot.chat(request, threading.Event()))
        first, *events = hot.chat(dataclasses.replace(request, count="first"), threading.Event())
        assert isinstance(first, PromptEvent)
        assert first.tokens == plain[-1].prompt_tokens
        assert first.cached_tokens == events[-1].cached_tokens <= first.tokens
        assert self.essence(events) == self.essence(plain)
        alone = list(hot.chat(dataclasses.replace(request, count="only"), threading.Event()))
        assert alone == [PromptEvent(first.tokens)]
        assert list(self.run(hot, threading.Event()))

    def test_raw_prompt_goes_without_template(self, hot: Any) -> None:
        request = ChatRequest(prompt="one two three four", max_tokens=4)
        assert isinstance(list(hot.chat(request, threading.Event()))[-1], FinishEvent)


class EmbeddingContract(EngineContract):
    """An engine that makes vectors and nothing else."""

    def run(self, engine: Any, cancel: threading.Event) -> Iterator[Any]:
        return engine.embed(EmbedRequest(("the cat sleeps", "a dog runs fast")), cancel)

    def test_vectors_in_order_at_length_one(self, hot: Any) -> None:
        first, second = self.run(hot, threading.Event())
        (alone,) = hot.embed(EmbedRequest(("a dog runs fast",)), threading.Event())
        assert isinstance(first, EmbeddingEvent)
        assert second == alone != first
        for one in (first, second):
            assert math.hypot(*struct.unpack(f"<{len(one.vector) // 4}f", one.vector)) == pytest.approx(1.0, abs=1e-5)

    def test_no_text_comes_after_a_cancel(self, hot: Any) -> None:
        cancel = threading.Event()
        events = self.run(hot, cancel)
        next(events)
        cancel.set()
        assert list(events) == []

    def test_a_long_text_is_cut_where_it_may_be(self, hot: Any) -> None:
        long, tokens = "sofa " * 5000, (4,) * 5000
        with pytest.raises(ContextOverflow):
            list(hot.embed(EmbedRequest((long,)), threading.Event()))
        short, text, given = hot.embed(EmbedRequest(("cat", long, tokens), cut=True), threading.Event())
        (longer,) = hot.embed(EmbedRequest((f"{long} cat",), cut=True), threading.Event())
        assert text == longer
        assert short.tokens < text.tokens == given.tokens


class RerankContract(EngineContract):
    documents: ClassVar[tuple[str, ...]] = ("the dog runs fast", "the cat sleeps on the sofa", "rain", "")
    three: ClassVar[str] = "sofa sofa sofa"
    """The first three tokens of "sofa sofa …"."""
    close: ClassVar[float] = 1e-4
    """Difference that rounding may make between a document alone and among others."""

    def run(self, engine: Any, cancel: threading.Event) -> Iterator[Any]:
        return engine.rerank(RerankRequest("cat sofa", self.documents), cancel)

    def essence(self, events: list[Any]) -> Any:
        return [(event.logit, event.tokens) for event in events]

    def test_each_document_is_judged_in_order_and_by_itself(self, hot: Any) -> None:
        events = list(self.run(hot, threading.Event()))
        assert all(isinstance(event, RerankEvent) and not event.cut for event in events)
        assert len(events) == len(self.documents)
        for document, event in zip(self.documents, events, strict=True):
            (alone,) = hot.rerank(RerankRequest("cat sofa", (document,)), threading.Event())
            assert (alone.logit, alone.tokens) == (pytest.approx(event.logit, abs=self.close), event.tokens)

    def test_a_long_document_is_cut_unless_none_may_be(self, hot: Any) -> None:
        long = "sofa " * 5000
        (event,) = hot.rerank(RerankRequest("cat", (long,)), threading.Event())
        assert event.cut
        (shorter,) = hot.rerank(RerankRequest("cat", (long,), max_document_tokens=3), threading.Event())
        (same,) = hot.rerank(RerankRequest("cat", (self.three,)), threading.Event())
        assert (shorter.cut, same.cut) == (True, False)
        assert (shorter.tokens, shorter.logit) == (same.tokens, same.logit)
        (bounded,) = hot.rerank(RerankRequest("cat", (long,), max_tokens=event.tokens - 2), threading.Event())
        assert (bounded.tokens, bounded.cut) == (event.tokens - 2, True)
        with pytest.raises(ContextOverflow, match="document 1 ") as caught:
            list(hot.rerank(RerankRequest("cat", ("sofa", long), cut=False), threading.Event()))
        assert caught.value.param == "documents"

    def test_a_query_longer_than_the_context_names_the_query(self, hot: Any) -> None:
        with pytest.raises(ContextOverflow) as caught:
            list(hot.rerank(RerankRequest("sofa " * 5000, ("cat",)), threading.Event()))
        assert caught.value.param == "query"


def told(events: Iterable[Any]) -> list[Any]:
    """The events that a reader gets."""
    return [event for event in events if event is not None and not isinstance(event, Rest)]


def resumed(answer: Callable[[Any], Iterable[Any]], request: Any) -> Iterator[Any]:
    """The events that a reader gets of an answer that rests wherever it may."""
    while request is not None:
        asked, request = request, None
        for event in answer(asked):
            if isinstance(event, Rest):
                request = dataclasses.replace(asked, rest=event)
                break
            if event is not None:
                yield event


class SpeechToTextContract(EngineContract):
    pcm: ClassVar[bytes]
    """float32 speech at 16 kHz, a few seconds of it."""

    def run(self, engine: Any, cancel: threading.Event) -> Iterator[Any]:
        return engine.transcribe(TranscribeRequest(Pcm(self.pcm)), cancel)

    def test_segments_in_order_then_one_end(self, hot: Any) -> None:
        *segments, end = told(self.run(hot, threading.Event()))
        assert segments
        assert all(isinstance(segment, SegmentEvent) for segment in segments)
        assert isinstance(end, TranscriptEnd)
        assert end.duration == pytest.approx(len(self.pcm) / 64_000)
        starts = [segment.start for segment in segments]
        assert starts == sorted(starts)
        assert all(segment.start <= segment.end <= end.duration + 0.02 for segment in segments)

    def test_a_language_that_it_says_it_lacks_is_refused(self, engine: Any, hot: Any) -> None:
        known = engine.languages()
        assert all(code.isalpha() and code.islower() for code in known)
        if known:
            with pytest.raises(InvalidRequest) as caught:
                list(hot.transcribe(TranscribeRequest(Pcm(self.pcm), language="tlh"), threading.Event()))
            assert caught.value.param == "language"
        assert hot.languages() == known

    def test_silence_has_no_words(self, hot: Any) -> None:
        events = list(hot.transcribe(TranscribeRequest(Pcm(bytes(4 * 16_000))), threading.Event()))
        assert "".join(event.text for event in events[:-1] if event is not None).strip() == ""


class TextToSpeechContract(EngineContract):
    def run(self, engine: Any, cancel: threading.Event) -> Iterator[Any]:
        return engine.speak(SpeakRequest("Good morning. This is a test."), cancel)

    def test_audio_comes_a_sentence_at_a_time_or_sooner(self, hot: Any) -> None:
        events = told(self.run(hot, threading.Event()))
        assert len(events) >= 2
        assert all(isinstance(event, AudioEvent) and len(event.pcm) % 2 == 0 for event in events)
        seconds = sum(len(event.pcm) / 2 / event.sample_rate for event in events)
        assert 0.3 < seconds < 10

    def test_speed_shortens(self, hot: Any) -> None:
        slow, fast = (
            sum(len(event.pcm) for event in hot.speak(SpeakRequest("Good morning.", speed=speed), threading.Event()))
            for speed in (0.8, 1.6)
        )
        assert fast < 0.8 * slow

    def test_voices_name_the_default_first(self, engine: Any) -> None:
        assert engine.voices()

    def test_unknown_voice_names_the_known_ones(self, hot: Any) -> None:
        from edgeserve.errors import InvalidRequest

        with pytest.raises(InvalidRequest, match=hot.voices()[0]) as caught:
            list(hot.speak(SpeakRequest("Hello.", voice="nobody"), threading.Event()))
        assert caught.value.param == "voice"
