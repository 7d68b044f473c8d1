"""Vision on SmolLM2 with a projector made for it: the contract, and that the answer depends on the picture."""

from __future__ import annotations

import dataclasses
import gc
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy
import psutil
import pytest
from benchmarks.mmproj import build_mmproj, picture
from support.contract import ChatContract, ask
from support.hot import hot
from support.server import until
from support.tiny_lora import write_adapter
from support.together import events_together, text_of

from edgeserve.engine import Adapter, ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.feed import LAST
from edgeserve.engines.llama.model import MappedModel
from edgeserve.engines.llama.pixels import rgb
from edgeserve.engines.llama.projector import Chunks, Projector
from edgeserve.engines.llama.vision import LlamaVision
from edgeserve.errors import Busy, ContextOverflow, EngineFailure, InvalidRequest, UnsupportedMedia
from edgeserve.messages import (
    ChatEvent,
    ChatRequest,
    FinishEvent,
    ImagePart,
    Message,
    PromptEvent,
    Sampling,
    TextPart,
    TokenEvent,
)
from edgeserve.system import heap, pages

Pulled = Callable[[str], Mapping[str, Path]]

pytestmark = pytest.mark.models
SYSTEM = {"system": "You are a helpful AI assistant."}


@pytest.fixture(scope="session")
def files(pulled: Pulled, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    llm = pulled("smollm2-135m-instruct")["model"]
    return {"model": llm, "mmproj": build_mmproj(llm, tmp_path_factory.mktemp("mmproj") / "mmproj.gguf")}


def spec_of(files: Mapping[str, Path], **options: object) -> ModelSpec:
    return ModelSpec(
        "vision",
        "vision",
        "edgeserve.engines.llama.vision:LlamaVision",
        files,
        threads=2,
        options={**SYSTEM, **options},
    )


@pytest.fixture(scope="module")
def engine(files: Mapping[str, Path]) -> Iterator[LlamaVision]:
    with hot(LlamaVision(spec_of(files))) as engine:
        yield engine


def test_a_damaged_projector_offers_nothing_and_fails_when_it_is_opened(
    files: Mapping[str, Path], tmp_path: Path
) -> None:
    damaged = tmp_path / "mmproj.gguf"
    damaged.write_bytes(b"no projector" * 100)
    engine = LlamaVision(spec_of({**files, "mmproj": damaged}))
    assert engine.savings()["image"] == 0
    with pytest.raises(EngineFailure, match="not a GGUF file"):
        engine.open()


def look(*images: bytes, text: str = "Describe this image.") -> ChatRequest:
    parts = (*(ImagePart(image) for image in images), TextPart(text))
    return ChatRequest((Message("user", parts),), max_tokens=16, sampling=Sampling(temperature=0.0))


def answer(engine: LlamaVision, request: ChatRequest) -> tuple[str, FinishEvent]:
    *tokens, finish = engine.chat(request, threading.Event())
    assert isinstance(finish, FinishEvent)
    return "".join(token.text for token in tokens if isinstance(token, TokenEvent)), finish


class TestLlamaVision(ChatContract):
    make = LlamaVision

    @pytest.fixture
    def spec(self, files: Mapping[str, Path]) -> ModelSpec:
        return spec_of(files, context=512)


@pytest.mark.parametrize(("colour", "other"), [("red", "blue"), ("blue", "red")])
def test_the_answer_depends_on_the_picture(engine: LlamaVision, colour: str, other: str) -> None:
    text, finish = answer(engine, look(picture(colour)))
    assert colour in text
    assert other not in text
    assert finish.prompt_tokens > 4


def test_each_picture_of_an_answer_with_adapters_is_looked_at_for_nan(
    engine: LlamaVision, files: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client could go behind a picture that was spoilt: all later answers of all clients were empty."""
    halves = {"a": numpy.zeros((1, 576), "f4"), "b": numpy.zeros((576, 1), "f4")}
    tensors = {f"blk.0.attn_q.weight.lora_{part}": half for part, half in halves.items()}
    adapter = write_adapter(tmp_path / "adapter.gguf", 0, tensors)
    spec = dataclasses.replace(
        spec_of({**files, "adapter0": adapter}, context=512), adapters=(Adapter("adapter0", 1.0),)
    )
    seen, real = list[bool](), Context.spoilt

    def spoilt(context: Context, output: int) -> bool:
        seen.extend([real(context, output)] * (output == LAST))
        return output == LAST and len(seen) == 3

    monkeypatch.setattr(Context, "spoilt", spoilt)
    two = look(picture("red"), picture("blue"))
    with hot(LlamaVision(spec)) as adapted:
        assert answer(adapted, two)[0] == answer(engine, two)[0]
        with pytest.raises(InvalidRequest, match="choose smaller scales"):
            answer(adapted, two)
        assert seen == [False] * 3
        assert "red" in answer(adapted, look(picture("red")))[0]


def test_a_picture_of_any_size_is_resized(engine: LlamaVision) -> None:
    assert "blue" in answer(engine, look(picture("blue", 700)))[0]


def test_several_pictures_take_several_places(engine: LlamaVision) -> None:
    _, one = answer(engine, look(picture("red")))
    _, two = answer(engine, look(picture("red"), picture("blue")))
    assert two.prompt_tokens >= one.prompt_tokens + 4


def test_a_prompt_with_pictures_is_counted(engine: LlamaVision) -> None:
    asked = look(picture("red"), picture("blue"))
    _, finish = answer(engine, asked)
    counted = list(engine.chat(dataclasses.replace(asked, count="only"), threading.Event()))
    assert counted == [PromptEvent(finish.prompt_tokens)]


def test_text_after_a_picture_starts_a_fresh_context(engine: LlamaVision) -> None:
    answer(engine, look(picture("red")))
    text, _ = answer(engine, ask("What is the capital of France?", max_tokens=16, sampling=Sampling(temperature=0.0)))
    assert "Paris" in text


def test_bytes_that_are_no_picture_are_refused(engine: LlamaVision) -> None:
    with pytest.raises(UnsupportedMedia, match="image 2 cannot be decoded"):
        answer(engine, look(picture("red"), b"\x89PNG\r\n\x1a\n" + bytes(100)))
    assert "red" in answer(engine, look(picture("red")))[0]


def test_pixels_are_the_same_picture_as_their_file(engine: LlamaVision) -> None:
    file = picture("red")
    with rgb(file) as found:
        assert found is not None
        width, height, pixels = found
        decoded = ImagePart(bytes(pixels), pixels=width * height, size=(width, height))
    message = Message("user", (decoded, TextPart("Describe this image.")))
    asked = dataclasses.replace(look(), messages=(message,))
    assert answer(engine, asked) == answer(engine, look(file))


def damaged(number: int) -> bytes:
    """Bytes that begin as a picture does; the decoder takes them for one and fails."""
    whole = picture("red", 300)
    return [
        whole[:8] + bytes(100),
        whole[:60],
        whole.replace(b"IDAT", b"IDAX"),
        b"\xff\xd8\xff\xe0" + bytes(200),
        b"GIF89a" + bytes(100),
        b"BM" + bytes(200),
        b"RIFF\0\0\0\0WEBPVP8 " + bytes(100),
        b"\0\0\0\x18ftypmp42" + bytes(1 << 20),
    ][number]


def settled() -> int:
    """Private bytes of this process, without what the heap keeps for later."""
    gc.collect()
    heap.trim()
    return pages.private_bytes()


@pytest.mark.parametrize("number", range(8))
def test_a_picture_that_cannot_be_decoded_starts_no_program_and_leaks_nothing(
    engine: LlamaVision, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in ("ffmpeg", "ffprobe"):
        path = tmp_path / program
        path.write_text(f"#!/bin/sh\necho {program} >>{tmp_path}/started\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def refuse() -> UnsupportedMedia:
        with pytest.raises(UnsupportedMedia, match="image 1 cannot be decoded") as refused:
            answer(engine, ChatRequest((Message("user", (ImagePart(damaged(number), "the part"),)),)))
        return refused.value

    error = refuse()
    assert not (tmp_path / "started").exists()
    assert error.param == "the part"
    assert "ff" not in error.message
    del error
    before, files = settled(), psutil.Process().num_fds()
    for _ in range(20):
        refuse()
    after = settled()
    assert not (tmp_path / "started").exists()
    assert not psutil.Process().children()
    until(lambda: psutil.Process().num_fds() <= files)  # another thread may just read a file
    assert after - before < 4 << 20
    assert "red" in answer(engine, look(picture("red")))[0]


class AtEnd(LlamaVision):
    """Its template writes pictures last, with nothing after them."""

    def prompt(self, model: MappedModel, request: ChatRequest, marker: str = "") -> str:
        text = super().prompt(model, request, "")
        return text + len(request.images) * marker


@pytest.fixture(scope="module")
def at_end(files: Mapping[str, Path]) -> Iterator[LlamaVision]:
    with hot(AtEnd(spec_of(files, context=1024, parallel=4))) as engine:
        yield engine


COUNT = ask("Count from one to twenty.", max_tokens=24, sampling=Sampling(temperature=0.0))


def first_choices(events: Sequence[ChatEvent]) -> dict[str, float]:
    """The likeliest tokens in the place of the first, and their probabilities."""
    (first, *_) = [one for event in events if isinstance(event, TokenEvent) for one in event.logprobs]
    return {one.text: math.exp(one.logprob) for one in first.top}


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_picture_that_ends_a_prompt_is_answered_from_its_own_logits(at_end: LlamaVision, place: int) -> None:
    requests = [dataclasses.replace(one, logprobs=2) for one in (COUNT, look(picture("red")), look(picture("blue")))]
    alone = [list(at_end.chat(one, threading.Event())) for one in requests]
    assert first_choices(alone[1]) != pytest.approx(first_choices(alone[2]), abs=0.02)
    order = [*range(place, 3), *range(place)]  # whose turn comes first must not matter
    for number, events in zip(order, events_together(at_end, [requests[one] for one in order]), strict=True):
        assert text_of(events) == text_of(alone[number])
        assert first_choices(events) == pytest.approx(first_choices(alone[number]), abs=0.02)


def test_a_picture_at_the_end_is_read_as_the_words_that_it_stands_for(at_end: LlamaVision) -> None:
    """The projector of the tests makes of a picture the very embeddings of these words."""
    seen = dataclasses.replace(look(picture("blue")), logprobs=3)
    written = at_end.prompt(at_end._hot()[0], look(), "") + "The color is blue"
    read = ChatRequest((), prompt=written, max_tokens=16, sampling=Sampling(temperature=0.0), logprobs=3)
    first, second = (list(at_end.chat(one, threading.Event())) for one in (seen, read))
    assert first_choices(first) == pytest.approx(first_choices(second), abs=0.03)


def test_a_picture_at_the_end_without_room_is_refused_and_others_go_on(files: Mapping[str, Path]) -> None:
    engine = AtEnd(spec_of(files, context=512, parallel=2))
    engine.open()
    engine.heat()
    try:
        slot = engine._batch.take_empty()  # type: ignore[union-attr]
        slot.cells = engine._batch.context.size - 10  # type: ignore[union-attr]
        slot.preempted = True  # else the picture would wait for its end
        with pytest.raises(Busy, match="taken by answers under way"):
            answer(engine, look(picture("red"), text="x"))
        slot.cells = 0
        assert answer(engine, look(picture("red")))[1].reason in ("stop", "length")
    finally:
        engine.close()


@pytest.mark.parametrize("text_first", [True, False])
def test_a_prompt_without_room_beside_another_waits_and_is_not_answered_by_nothing(
    files: Mapping[str, Path], text_first: bool
) -> None:
    engine = LlamaVision(spec_of(files, context=256))
    engine.open()
    engine.heat()
    try:
        text, image = TextPart("one two " * 50 + "Describe this image."), ImagePart(picture("red"))
        parts = (text, image, TextPart("Name its color.")) if text_first else (image, text)
        request = dataclasses.replace(look(), messages=(Message("user", parts),))
        told = ends_together(engine, [request, request])
        assert told == ["FinishEvent", "FinishEvent"], "the second was refused: each had read what the other needed"
        assert answer(engine, request)[1].completion_tokens > 0
    finally:
        engine.close()


def ends_together(engine: LlamaVision, requests: Sequence[ChatRequest]) -> list[str]:
    """The end of each answer: its error's text, or the class of its last event."""
    runs = {number: engine.run(one, threading.Event()) for number, one in enumerate(requests)}
    last: dict[int, ChatEvent | None] = {}
    ends: dict[int, str] = {}
    while runs:
        for number, run in tuple(runs.items()):
            try:
                while (event := next(run)) is not None:
                    last[number] = event  # type: ignore[assignment]  # a chat's
            except Busy as error:
                ends[number] = str(error)
                del runs[number]
            except StopIteration:
                ends[number] = type(last.get(number)).__name__
                del runs[number]
        engine.step()
    return list(ends.values())


@pytest.mark.parametrize("text", ["<__media__>", "a <__media__> b <__media__>", "<image>", "", "\0", "<|im_end|>"])
def test_a_client_cannot_write_the_place_of_a_picture(engine: LlamaVision, text: str) -> None:
    told, finish = answer(engine, look(picture("blue"), text=text))
    assert finish.completion_tokens
    assert "red" not in told
    plain = ask(text, max_tokens=4, sampling=Sampling(temperature=0.0))
    assert answer(engine, plain)[1].completion_tokens  # nor does it stand for one where there is none


def test_markers_differ_between_engines_and_must_match_the_pictures(engine: LlamaVision, at_end: LlamaVision) -> None:
    marker = engine._marker
    assert marker != at_end._marker
    assert engine._projector is not None
    chunks = engine._projector.cut(f"a{marker}b", [ImagePart(picture("red"))])
    assert [chunk.tokens is None for chunk in chunks] == [False, True, False]
    for text, count in [("no picture", 1), ("", 1), (at_end._marker, 1), (marker * 2, 1), (marker, 2)]:
        with pytest.raises(UnsupportedMedia, match="cannot be prepared"):
            engine._projector.cut(text, [ImagePart(picture("red"), f"part {number}") for number in range(count)])


def test_too_much_text_beside_a_picture(engine: LlamaVision) -> None:
    size = engine.context_tokens
    assert size is not None
    for words, told in ((size, "text and images make"), (3 * size, "the prompt is more than")):
        with pytest.raises(ContextOverflow, match=told):
            answer(engine, look(picture("red"), text="word " * words))


def test_a_cancelled_picture_yields_nothing(engine: LlamaVision) -> None:
    cancel = threading.Event()
    cancel.set()
    assert list(engine.chat(look(picture("red")), cancel)) == []


def test_pictures_are_decoded_beside_the_loop_and_the_projector_waits_for_them(
    files: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    go, cut = threading.Event(), Projector._cut

    def slowly(self: Projector, prompt: str, images: Sequence[ImagePart]) -> Chunks:
        go.wait(60)
        return cut(self, prompt, images)

    monkeypatch.setattr(Projector, "_cut", slowly)
    engine = LlamaVision(spec_of(files))
    engine.open()
    engine.heat()
    seeing = engine.run(look(picture("red")), threading.Event())
    for _ in range(10):
        assert next(seeing) is None
        engine.step()
    assert answer(engine, ask("Hi", max_tokens=3, sampling=Sampling(temperature=0.0)))[1].completion_tokens
    seeing.close()
    parking = threading.Thread(target=engine.park, daemon=True)
    parking.start()
    parking.join(0.2)
    assert parking.is_alive()
    go.set()
    parking.join(60)
    assert not parking.is_alive()
    engine.close()


def test_the_language_model_is_shared_and_survives_the_others_close(files: Mapping[str, Path]) -> None:
    vision = LlamaVision(spec_of(files, context=256))
    chat = LlamaChat(ModelSpec("llm", "chat", "x", {"model": files["model"]}, options={**SYSTEM, "context": 256}))
    chat.open()
    before = len(list(pages.mappings(files["model"])))
    vision.open()
    assert len(list(pages.mappings(files["model"]))) == before
    vision.heat()
    chat.close()
    assert "red" in answer(vision, look(picture("red")))[0]
    vision.close()


def test_a_missing_projector_is_named(files: Mapping[str, Path], tmp_path: Path) -> None:
    engine = LlamaVision(spec_of({"model": files["model"], "mmproj": tmp_path / "none.gguf"}))
    with pytest.raises(EngineFailure, match=r"none\.gguf"):
        engine.open()


def test_a_projector_that_is_none_is_named(files: Mapping[str, Path], tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match="no vision projector"):
        LlamaVision(spec_of({"model": files["model"], "mmproj": files["model"]})).open()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(files["mmproj"].read_bytes()[:100_000])
    engine = LlamaVision(spec_of({"model": files["model"], "mmproj": cut}))
    engine.open()
    with pytest.raises(EngineFailure, match="cannot read it as a projector"):
        engine.heat()
    engine.close()
