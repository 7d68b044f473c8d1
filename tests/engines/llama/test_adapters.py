"""LoRA adapters: unfit files are refused with words, and a fit one computes what merged weights compute."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from support.tiny_gguf import LAYERS, WIDTH, write_model
from support.tiny_lora import added, pairs, write_adapter
from support.together import events_together

from edgeserve.engine import Adapter, ModelSpec, Rung
from edgeserve.engines.llama import adapters
from edgeserve.engines.llama.adapters import Adapters, active
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.state_files import owner_of, salt_in
from edgeserve.engines.llama.state_index import client_of, scope_of
from edgeserve.errors import EngineFailure, Forbidden, InvalidRequest
from edgeserve.messages import (
    ChatEvent,
    ChatRequest,
    EmbedRequest,
    FinishEvent,
    Sampling,
    SlotEvent,
    SlotRequest,
    TokenEvent,
)
from edgeserve.slots import SlotAction

pytestmark = pytest.mark.models
PROMPTS = [tuple(range(start, start + 60)) for start in (1, 101, 201)]
BOTH = (Adapter("adapter0", 1.0, "one"), Adapter("adapter1", 0.5, "other"))
Make = Callable[..., LlamaChat]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model, two adapters, and the model with each of them merged."""
    folder = tmp_path_factory.mktemp("adapters")
    return {
        "model": write_model(folder / "base.gguf", "llama"),
        "adapter0": write_adapter(folder / "one.gguf", 7),
        "adapter1": write_adapter(folder / "other.gguf", 8),
        "wild": write_adapter(folder / "wild.gguf", 7, {name: 1e18 * one for name, one in pairs(7).items()}),
        "merged0": write_model(folder / "merged0.gguf", "llama", added=added(7)),
        "merged1": write_model(folder / "merged1.gguf", "llama", added=added(8, 0.5)),
    }


@pytest.fixture
def make(files: dict[str, Path]) -> Iterator[Make]:
    made: list[LlamaChat] = []

    def build(*with_adapters: Adapter, model: str = "model", heat: bool = True, **options: object) -> LlamaChat:
        given = {"model": files[model]} | {one.role: files[one.role] for one in with_adapters}
        options = {"context": 2048, **options}
        engine = LlamaChat(
            ModelSpec(
                "llm",
                model,
                "edgeserve.engines.llama.chat:LlamaChat",
                given,
                threads=1,
                options=options,
                adapters=with_adapters,
            )
        )
        made.append(engine)
        engine.open()
        if heat:
            engine.heat()
        return engine

    yield build
    for engine in made:
        engine.close()
        assert engine.rung is Rung.COLD


def ask(prompt: tuple[int, ...], *used: tuple[str, float], none: bool = False, tokens: int = 8) -> ChatRequest:
    chosen = used if used or none else None
    greedy = Sampling(temperature=0.0)
    return ChatRequest(prompt=prompt, max_tokens=tokens, sampling=greedy, logprobs=1, adapters=chosen)


def told(events: list[ChatEvent]) -> list[float]:
    """The log-probability of each token."""
    return [one.token.logprob for event in events if isinstance(event, TokenEvent) for one in event.logprobs]


def text(events: list[ChatEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TokenEvent))


def answers(engine: LlamaChat, *requests: ChatRequest) -> list[list[ChatEvent]]:
    return events_together(engine, requests)


def same(ours: list[ChatEvent], theirs: list[ChatEvent]) -> None:
    assert text(ours) == text(theirs)
    assert told(ours) == pytest.approx(told(theirs), abs=0.02)


# Answers


def test_an_adapter_computes_what_merged_weights_compute(make: Make) -> None:
    engine = make(*BOTH)
    for prompt in PROMPTS:
        ones = [("adapter0", 1.0)], [("adapter1", 0.5)]
        for used, model in zip(ones, ("merged0", "merged1"), strict=True):
            [ours], [theirs] = answers(engine, ask(prompt, *used)), answers(make(model=model), ask(prompt))
            same(ours, theirs)
        [plain], [base] = answers(engine, ask(prompt)), answers(make(), ask(prompt))
        same(plain, base)
        assert text(plain) != text(ours), "else this proves nothing"


def test_answers_with_other_adapters_run_beside_each_other(make: Make) -> None:
    engine, fresh = make(*BOTH, parallel=4), make(*BOTH, parallel=1, prefix_cache_mb=0)
    uses: list[Any] = [(), (("adapter0", 1.0),), (("adapter1", 0.5),), (("adapter0", 0.3), ("adapter1", 1.0))]
    requests = [ask(PROMPTS[0], *used) for used in uses]
    beside = answers(engine, *requests)
    alone = [answers(fresh, request)[0] for request in requests]
    for ours, theirs in zip(beside, alone, strict=True):
        same(ours, theirs)
    assert len({text(one) for one in beside}) == 4


def test_an_adapter_without_a_name_changes_every_answer(make: Make) -> None:
    engine = make(Adapter("adapter0"))
    [ours], [merged] = answers(engine, ask(PROMPTS[0])), answers(make(model="merged0"), ask(PROMPTS[0]))
    same(ours, merged)
    [without], [base] = answers(engine, ask(PROMPTS[0], none=True)), answers(make(), ask(PROMPTS[0]))
    same(without, base)


def test_embeddings_use_them_too(make: Make) -> None:
    def vector(engine: LlamaChat, used: Any) -> Any:
        [event] = events_together(engine, [EmbedRequest((PROMPTS[0],), used)])[0]  # type: ignore[list-item]
        return numpy.frombuffer(event.vector, "<f4")  # type: ignore[union-attr]

    engine = make(*BOTH)
    ours, merged = vector(engine, (("adapter0", 1.0),)), vector(make(model="merged0"), None)
    assert ours == pytest.approx(merged, abs=1e-3)
    assert vector(engine, None) != pytest.approx(ours, abs=1e-2)


# The prefix cache


WILD = (Adapter("wild", 1.0, "wild"),)
"""With it, the model overflows: its numbers are none (NaN)."""


def beside(engine: LlamaChat, good: ChatRequest, bad: ChatRequest, steps: int) -> tuple[list[ChatEvent], Exception]:
    """The events of ``good``, and the error of ``bad``, which comes so many steps later."""
    runs, events, failed = [engine.run(good, threading.Event())], list[ChatEvent](), None
    while runs:
        for run in tuple(runs):
            try:
                while (event := next(run)) is not None:
                    events.append(event)  # type: ignore[arg-type]
            except StopIteration:
                runs.remove(run)
            except InvalidRequest as error:
                runs.remove(run)
                failed = error
        if steps == 0:
            runs.append(engine.run(bad, threading.Event()))
        steps -= 1
        engine.step()
    assert failed is not None
    return events, failed


@pytest.mark.parametrize("attention", ["off", "auto"])
@pytest.mark.parametrize("steps", [0, 3])
def test_no_adapter_that_makes_a_model_overflow_spoils_another_answer(make: Make, attention: str, steps: int) -> None:
    """Neither an answer under way, nor an idle conversation, nor a prompt that comes later."""
    engine = make(*WILD, parallel=4, flash_attention=attention)
    fresh = make(parallel=1, prefix_cache_mb=0, flash_attention=attention)
    long = tuple(range(1, 301))
    [idle] = answers(engine, ask(PROMPTS[1]))
    ours, error = beside(engine, ask(PROMPTS[0]), ask(PROMPTS[2], ("wild", 1.0)), steps)
    assert isinstance(error, InvalidRequest)
    assert error.param == "lora"
    [theirs] = answers(fresh, ask(PROMPTS[0]))
    same(ours, theirs)
    for prompt in (long, PROMPTS[1]):
        [ours], [theirs] = answers(engine, ask(prompt)), answers(fresh, ask(prompt))
        same(ours, theirs)
    assert text(idle) == text(ours)
    assert end(ours).cached_tokens > 0, "the idle conversation was lost"


def test_an_answer_that_anothers_adapter_spoilt_begins_anew(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The adapters of a prompt that is being read, such as one with pictures, may not have made logits yet."""
    engine, fresh = make(*BOTH, parallel=4), make(parallel=1, prefix_cache_mb=0)
    real, once = Context.spoilt, iter([True])

    def spoilt(context: Context, output: int) -> bool:
        both = sum(slot.busy for slot in engine._hot()[1].slots) == 2 and context._active == ()
        return next(once, False) if both else real(context, output)

    monkeypatch.setattr(Context, "spoilt", spoilt)
    ours, error = beside(engine, ask(PROMPTS[0], none=True), ask(PROMPTS[1], ("adapter0", 1.0), tokens=64), 0)
    [theirs] = answers(fresh, ask(PROMPTS[0]))
    assert isinstance(error, InvalidRequest)
    assert not list(once), "no call was found spoilt"
    same(ours, theirs)


@pytest.mark.parametrize("parallel", [1, 4])
def test_no_text_whose_adapter_makes_a_model_overflow_spoils_an_answer(make: Make, parallel: int) -> None:
    """It left NaN in cells of the context, and all later answers were empty."""
    engine, fresh = make(*WILD, parallel=parallel), make(parallel=1, prefix_cache_mb=0)
    for text in (PROMPTS[1], tuple(range(1, 301))):
        with pytest.raises(InvalidRequest, match="computes no numbers"):
            events_together(engine, [EmbedRequest((text,), (("wild", 1.0),))])  # type: ignore[list-item]
        for prompt in (PROMPTS[0][:20], PROMPTS[0]):
            same(answers(engine, ask(prompt))[0], answers(fresh, ask(prompt))[0])


def end(events: list[ChatEvent]) -> FinishEvent:
    last = events[-1]
    assert isinstance(last, FinishEvent)
    return last


@pytest.mark.parametrize("parked", [False, True])
def test_no_cache_that_one_adapter_made_serves_another(make: Make, parked: bool) -> None:
    engine = make(*BOTH)
    uses: list[Any] = [(), (("adapter0", 1.0),), (("adapter0", 0.5),), (("adapter1", 1.0),)]
    for used in uses:
        [first] = answers(engine, ask(PROMPTS[0], *used))
        assert end(first).cached_tokens == 0
        if parked:
            engine.park()
            engine.heat()
    for used in uses:
        [again] = answers(engine, ask(PROMPTS[0], *used))
        assert end(again).cached_tokens >= len(PROMPTS[0]) - 1


def test_no_state_on_disk_serves_another_file_of_the_same_name(
    files: dict[str, Path], make: Make, tmp_path: Path
) -> None:
    path, states = tmp_path / "changing.gguf", {"prefix_cache_disk_mb": 10, "prefix_cache_dir": str(tmp_path / "s")}
    used = ("adapter2", 1.0)
    files["adapter2"] = write_adapter(path, 7)

    def cached() -> int:
        engine = make(Adapter("adapter2", name="changing"), **states)
        [events] = answers(engine, ask(PROMPTS[0], used))
        engine.close()
        return end(events).cached_tokens

    assert cached() == 0
    assert cached() >= len(PROMPTS[0]) - 1
    write_adapter(path, 8)
    os.utime(path, (1, 1))
    assert cached() == 0


def test_no_cache_of_one_adapter_serves_another_of_the_same_size_and_time(
    files: dict[str, Path], make: Make, tmp_path: Path
) -> None:
    for number, (role, seed) in enumerate((("adapter2", 7), ("adapter3", 8))):
        files[role] = write_adapter(tmp_path / f"{number}.gguf", seed)
        os.utime(files[role], (1, 1))  # as an archive or a layer of an image unpacks them
    assert files["adapter2"].stat().st_size == files["adapter3"].stat().st_size
    engine = make(Adapter("adapter2", name="one"), Adapter("adapter3", name="other"))
    answers(engine, ask(PROMPTS[0], ("adapter2", 1.0)))
    [other] = answers(engine, ask(PROMPTS[0], ("adapter3", 1.0)))
    assert end(other).cached_tokens == 0


def test_a_slot_of_a_model_with_an_adapter_in_every_answer_is_saved_and_restored(make: Make, tmp_path: Path) -> None:
    engine = make(Adapter("adapter0"), Adapter("adapter1", name="other"), parallel=1, prefix_cache_dir=str(tmp_path))

    def do(action: str) -> SlotEvent:
        (event,) = engine.manage_slot(SlotRequest(action, 0, "mine"), threading.Event())  # type: ignore[arg-type]
        return event

    answers(engine, ask(PROMPTS[0]))
    saved = do("save")
    do("erase")
    assert do("restore").tokens == saved.tokens >= len(PROMPTS[0])
    [again] = answers(engine, ask(PROMPTS[0]))
    assert end(again).cached_tokens >= len(PROMPTS[0]) - 1
    do("erase")
    answers(engine, ask(PROMPTS[0], ("adapter1", 1.0)))
    with pytest.raises(Forbidden, match="adapters that requests choose"):
        do("save")


# The ladder


def test_adapters_take_memory_while_hot_alone(make: Make, files: dict[str, Path]) -> None:
    engine = make(*BOTH, heat=False)
    assert engine._model is not None
    held = engine._model.adapters
    assert (len(held._handles), held._users) == (0, 0)
    for _ in range(2):
        engine.heat()
        assert (len(held._handles), held._users) == (2, 1)
        engine.park()
        assert (len(held._handles), held._users) == (0, 0)
    sizes = sum(files[one.role].stat().st_size for one in BOTH)
    assert engine.estimate().private == make(heat=False).estimate().private + sizes


def test_an_engine_that_cannot_make_its_context_holds_no_adapter(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make(*BOTH, heat=False)
    with monkeypatch.context() as patched:
        patched.setattr(engine, "_make_context", lambda model: (_ for _ in ()).throw(EngineFailure("no memory")))
        with pytest.raises(EngineFailure, match="no memory"):
            engine.heat()
    assert engine._model is not None
    assert engine._model.adapters._users == 0
    engine.heat()


def test_two_engines_of_one_file_share_their_adapters(make: Make) -> None:
    first, second = make(*BOTH), make(*BOTH)
    assert first._weights is not None
    assert first._weights is second._weights
    [ours] = answers(first, ask(PROMPTS[0], ("adapter0", 1.0)))
    first.park()
    [theirs] = answers(second, ask(PROMPTS[0], ("adapter0", 1.0)))
    same(ours, theirs)
    assert make()._weights is not second._weights, "an engine without them shares nothing with their model"


# Unfit files

WEIGHT = "blk.0.attn_q.weight"


def pair(rows: int = WIDTH, columns: int = WIDTH, rank: int = 4, name: str = WEIGHT, kind: str = "f4") -> Any:
    return {
        f"{name}.lora_a": numpy.ones((rank, columns), kind),
        f"{name}.lora_b": numpy.ones((rows, rank), kind),
    }


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"architecture": "qwen2"}, "general.architecture is 'qwen2', not 'llama'"),
        ({"general_type": "model"}, "general.type is 'model', not 'adapter'"),
        ({"adapter_type": "ia3"}, "adapter.type is 'ia3', not 'lora'"),
        ({"alpha": 8}, "adapter.lora.alpha is no 32-bit float"),
        ({"alora": [1, 2]}, "an activated LoRA"),
        ({"tensors": {}}, "changes no weights"),
        ({"tensors": pair() | {"blk.0.ffn_up.weight.lora_a": numpy.ones((4, WIDTH), "f4")}}, "lacks one half"),
        ({"tensors": pair(name=f"blk.{LAYERS}.attn_q.weight")}, "which base.gguf does not have"),
        ({"tensors": pair(rows=WIDTH * 2)}, "do not fit"),
        ({"tensors": pair(columns=WIDTH * 2)}, "do not fit"),
        ({"tensors": pair() | {f"{WEIGHT}.lora_b": numpy.ones((WIDTH, 3), "f4")}}, "do not fit"),
        ({"tensors": pair() | {f"{WEIGHT}.lora_a": numpy.ones((2, 4, WIDTH), "f4")}}, "do not fit"),
        ({"tensors": pair(kind="i4")}, "use F32, F16, BF16 or Q8_0"),
        ({"tensors": pair(name="token_embd.weight", rows=320)}, "changes the token embedding"),
    ],
)
def test_an_unfit_adapter_is_refused_at_open(
    files: dict[str, Path], make: Make, tmp_path: Path, made: dict[str, Any], words: str
) -> None:
    files["adapter2"] = write_adapter(tmp_path / "unfit.gguf", 7, **made)
    with pytest.raises(EngineFailure, match=words) as caught:
        make(Adapter("adapter2"))
    assert "unfit.gguf" in str(caught.value)


def test_a_broken_file_is_refused(files: dict[str, Path], make: Make, tmp_path: Path) -> None:
    whole = write_adapter(tmp_path / "whole.gguf", 7).read_bytes()
    files["adapter2"] = path = tmp_path / "broken.gguf"
    for kept in (0, 3, 10, 100, 1000, len(whole) // 2, len(whole) - 100):
        path.write_bytes(whole[:kept])
        with pytest.raises(EngineFailure, match=r"broken\.gguf"):
            make(Adapter("adapter2"))
    path.write_bytes(b"a file of another kind")
    with pytest.raises(EngineFailure, match=r"not a GGUF file; llama\.cpp's convert_lora_to_gguf.py writes"):
        make(Adapter("adapter2"))
    path.unlink()
    with pytest.raises(EngineFailure, match="no such file"):
        make(Adapter("adapter2"))


def test_what_the_check_lets_pass_and_llama_cpp_refuses_fails_on_the_way_up(
    files: dict[str, Path], make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files["adapter2"] = write_adapter(tmp_path / "unfit.gguf", 7, architecture="qwen2")
    monkeypatch.setattr(adapters, "check", lambda path, base: None)
    engine = make(Adapter("adapter2"), heat=False)
    with pytest.raises(EngineFailure, match=r"unfit.gguf: llama.cpp cannot apply it \(.*arch mismatch"):
        engine.heat()
    assert engine.rung is Rung.WARM


def test_a_file_that_was_replaced_while_the_engine_was_warm_is_checked_again(
    files: dict[str, Path], make: Make, tmp_path: Path
) -> None:
    files["adapter2"] = path = write_adapter(tmp_path / "changing.gguf", 7)
    engine = make(Adapter("adapter2"), heat=False)
    path.unlink()
    write_adapter(path, 7, alpha=8)  # llama.cpp would end the process
    with pytest.raises(EngineFailure, match=r"alpha is no 32-bit float"):
        engine.heat()
    path.unlink()
    write_adapter(path, 8)
    engine.heat()
    assert engine.rung is Rung.HOT


# What a request uses


def test_the_adapters_of_a_request() -> None:
    known = (Adapter("a", 0.5), Adapter("b", 2.0, "named"))
    assert active(known, None) == ((0, 0.5),)
    assert active(known, ()) == ()
    assert active(known, (("b", 2.0), ("a", 1.0))) == ((0, 1.0), (1, 2.0))
    assert active(known, (("b", 0.0),)) == ()
    assert active((), None) == ()
    with pytest.raises(InvalidRequest, match="no adapter 'c'"):
        active(known, (("c", 1.0),))


def test_without_adapters_the_salt_stays() -> None:
    assert Adapters(()).salted("salt", ()) == "salt"


def test_with_adapters_the_same_clients_share_as_without() -> None:
    adapters = Adapters(())
    adapters._prints = ["one", "two"]
    salts = ("mine/", "other/", "mine/mine/a", "mine/mine/b", "other/other/a")
    made = [adapters.salted(one, ((0, 1.0),)) for one in salts]
    assert [client_of(one) for one in made] == [client_of(one) for one in salts]
    assert scope_of(made[0]) == scope_of(made[1])
    scopes = {scope_of(one) for one in made} | {scope_of(adapters.salted("mine/", ((1, 1.0),)))}
    assert len(scopes) == 5
    assert scopes.isdisjoint(map(scope_of, salts))


def test_pairs_of_the_tests_fit_their_model() -> None:
    assert len(pairs(1)) == 4 * LAYERS


def test_slots_are_saved_with_the_adapters_of_the_model_and_with_no_others(make: Make, tmp_path: Path) -> None:
    folder, prompt = str(tmp_path), tuple(range(3, 103))
    engine = make(Adapter("adapter0", 1.0), Adapter("adapter1", 0.5, "other"), prefix_cache_dir=folder)

    def manage(action: SlotAction, slot: int) -> SlotEvent:
        (event,) = engine.manage_slot(SlotRequest(action, slot, "mine"), threading.Event())
        return event

    def cached(*used: tuple[str, float]) -> int:
        *_, finish = engine.chat(ask(prompt, *used, tokens=2), threading.Event())
        assert isinstance(finish, FinishEvent)
        return finish.cached_tokens

    cached()
    first = next(number for number, one in enumerate(engine.slot_states()) if one.tokens)
    saved = manage("save", first)
    [path] = tmp_path.rglob("*-mine.slot")
    assert client_of(salt_in(path.name)) == owner_of(""), "adapters make further salts, and no further client"
    manage("erase", first)
    assert manage("restore", 2).tokens == saved.tokens
    assert cached() == len(prompt) - 1
    for number in range(4):
        manage("erase", number)
    cached(("adapter1", 1.0))
    first = next(number for number, one in enumerate(engine.slot_states()) if one.tokens)
    with pytest.raises(Forbidden, match="adapters that requests choose"):
        manage("save", first)
