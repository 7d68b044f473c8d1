"""Vision on SmolLM2 with a projector made for it: the contract, and that the answer depends on the picture."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from benchmarks.mmproj import build_mmproj, picture
from support.contract import ChatContract, ask

from edgeserve.engine import ModelSpec
from edgeserve.errors import ContextOverflow, EngineFailure, UnsupportedMedia
from edgeserve.messages import ChatRequest, FinishEvent, ImagePart, Message, Sampling, TextPart, TokenEvent
from engines import pages
from engines.llama import LlamaChat
from engines.llama_vision import LlamaVision

Pulled = Callable[[str], Mapping[str, Path]]

pytestmark = pytest.mark.models
SYSTEM = {"system": "You are a helpful AI assistant."}


@pytest.fixture(scope="session")
def files(pulled: Pulled, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    llm = pulled("smollm2-135m-instruct")["model"]
    return {"model": llm, "mmproj": build_mmproj(llm, tmp_path_factory.mktemp("mmproj") / "mmproj.gguf")}


def spec_of(files: Mapping[str, Path], **options: object) -> ModelSpec:
    return ModelSpec(
        "vision", "vision", "engines.llama_vision:LlamaVision", files, threads=2, options={**SYSTEM, **options}
    )


@pytest.fixture(scope="module")
def engine(files: Mapping[str, Path]) -> Iterator[LlamaVision]:
    engine = LlamaVision(spec_of(files))
    engine.open()
    engine.heat()
    yield engine
    engine.close()


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


def test_a_picture_of_any_size_is_resized(engine: LlamaVision) -> None:
    assert "blue" in answer(engine, look(picture("blue", 700)))[0]


def test_several_pictures_take_several_places(engine: LlamaVision) -> None:
    _, one = answer(engine, look(picture("red")))
    _, two = answer(engine, look(picture("red"), picture("blue")))
    assert two.prompt_tokens >= one.prompt_tokens + 4


def test_text_after_a_picture_starts_a_fresh_context(engine: LlamaVision) -> None:
    answer(engine, look(picture("red")))
    text, _ = answer(engine, ask("What is the capital of France?", max_tokens=16, sampling=Sampling(temperature=0.0)))
    assert "Paris" in text


def test_bytes_that_are_no_picture_are_refused(engine: LlamaVision) -> None:
    with pytest.raises(UnsupportedMedia, match="image 2 cannot be decoded"):
        answer(engine, look(picture("red"), b"\x89PNG\r\n\x1a\n" + bytes(100)))
    assert "red" in answer(engine, look(picture("red")))[0]


def test_too_much_text_beside_a_picture(engine: LlamaVision) -> None:
    with pytest.raises(ContextOverflow, match="text and images make"):
        answer(engine, look(picture("red"), text="word " * 3000))


def test_a_cancelled_picture_yields_nothing(engine: LlamaVision) -> None:
    cancel = threading.Event()
    cancel.set()
    assert list(engine.chat(look(picture("red")), cancel)) == []


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
