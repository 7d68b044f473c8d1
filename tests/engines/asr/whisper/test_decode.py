"""Graphs and decode loop against CTranslate2 itself, on small checkpoints of every form."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
from support import tiny_whisper

from edgeserve.engine import ModelSpec
from edgeserve.engines.asr.onnx import OnnxSpeechToText
from edgeserve.engines.asr.whisper import words
from edgeserve.engines.asr.whisper.decode import Batch, Decoded
from edgeserve.engines.asr.whisper.graphs import MAX_POSITIONS
from edgeserve.engines.onnx import session
from edgeserve.errors import Cancelled, EngineFailure
from edgeserve.models.convert import whisper

FORMS = [("float32", 80), ("float16", 128), ("int8", 80), ("bfloat16", 80)]
pytestmark = pytest.mark.slow
of_one_form = pytest.mark.parametrize("pair", FORMS[:1], indirect=True, ids=["float32-80"])
"""The decode loop is the same whatever the type of the weights."""


class Pair:
    """One checkpoint: the reference, and ours converted from it."""

    def __init__(self, folder: Path, stored: str, mels: int) -> None:
        import ctranslate2

        source = tiny_whisper.build(folder / "checkpoint", mels=mels, stored=stored)
        files = whisper.convert(source, folder / "converted")
        options = {"quantization": "none"}
        self.engine = OnnxSpeechToText(ModelSpec("asr", "tiny", "", files, threads=1, options=options))
        self.engine.heat()
        model = self.engine._model._model  # type: ignore[union-attr]
        self.graphs, self.words = model.graphs, model.vocabulary
        self.reference = ctranslate2.models.Whisper(str(source), compute_type="float32", intra_threads=1)
        self.mel = numpy.random.default_rng(1).standard_normal((1, mels, 3000)).astype(numpy.float32)
        self.view = ctranslate2.StorageView.from_array(self.mel)
        self.audio = self.graphs.places(1)
        self.graphs.listen(self.mel, self.audio)

    def batch(self, mels: Sequence[Any]) -> Batch:
        batch = Batch(self.graphs, self.words, len(mels), threading.Event())
        for place, mel in enumerate(mels):
            batch.listen(place, mel)
        return batch

    def decoded(self, prompt: list[int], temperature: float = 0.0) -> Decoded:
        batch = self.batch([self.mel])
        batch.begin(0, prompt, temperature)
        return finished(batch)[0]


def finished(batch: Batch) -> dict[int, Decoded]:
    """The texts of a batch by the place at which each ended; a place is removed when its text ends."""
    found = {}
    while batch._texts:
        for place, decoded in batch.step():
            found[place] = decoded
            batch.remove(place)
    return found


@pytest.fixture(scope="module", params=FORMS, ids=lambda form: f"{form[0]}-{form[1]}")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    pair = Pair(tmp_path_factory.mktemp("pair"), *request.param)
    yield pair
    pair.engine.close()


def test_the_encoder_agrees(pair: Pair) -> None:
    (states,) = session.run(pair.graphs._encoder.now(), None, {"mel": pair.mel})
    assert states == pytest.approx(numpy.array(pair.reference.encode(pair.view)), abs=1e-4)


@pytest.mark.parametrize(("before", "positions"), [(0, 448), (400, 447)], ids=["bare", "after as much text as fits"])
def test_tokens_and_their_figures_agree(pair: Pair, before: int, positions: int) -> None:
    """After a long prompt the reference says one token more than ours: its last one never takes a position."""
    prompt = pair.words.prompt("de", list(range(1000, 1000 + before)), MAX_POSITIONS // 2 - 1)
    (theirs,) = pair.reference.generate(
        pair.view, [prompt], beam_size=1, max_length=positions, return_scores=True, return_no_speech_prob=True
    )
    ours = pair.decoded(prompt)
    expected = theirs.sequences_ids[0]
    assert len(set(expected)) > 20
    assert list(ours.tokens) == expected
    assert ours.no_speech_prob == pytest.approx(theirs.no_speech_prob, rel=1e-3)
    assert ours.avg_logprob == pytest.approx(theirs.scores[0] * len(expected) / (len(expected) + 1), rel=1e-3)


def test_logits_of_given_text_agree(pair: Pair) -> None:
    prompt, text = pair.words.prompt("de", (), 1), list(range(300, 340))
    (theirs,) = pair.reference.align(pair.view, prompt, [text], 3000)
    rows = range(len(prompt), len(prompt) + len(text))
    logits, _ = pair.graphs.begin([*prompt, pair.words.no_timestamps, *text], rows, pair.audio)
    among_text = numpy.exp(logits[:, : pair.words.end])
    chances = (among_text / among_text.sum(axis=1, keepdims=True))[range(len(text)), text]
    assert chances == pytest.approx(numpy.array(theirs.text_token_probs), rel=1e-3)


def test_alignment_agrees(pair: Pair) -> None:
    prompt, text = pair.words.prompt("de", (), 1), list(range(300, 320))
    (theirs,) = pair.reference.align(pair.view, prompt, [text], 600)
    rows, columns = words.path(pair.graphs, pair.audio, pair.words, "de", text, 600)
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == theirs.alignments


@of_one_form
def test_step_by_step_is_the_same_as_at_once(pair: Pair) -> None:
    tokens = [*pair.words.prompt("en", (), 1), 400, 401, 402]
    at_once = pair.graphs.begin(tokens, [len(tokens) - 1], pair.audio)[0].copy()
    past = pair.graphs.no_past()
    for place, token in enumerate(tokens):
        mask, places = numpy.zeros((1, 1, 1, place + 1), numpy.float32), numpy.array([[place]])
        logits, past = pair.graphs.step([[token]], places, mask, [0], past, pair.audio)
    assert logits[0] == pytest.approx(at_once, abs=1e-3)


@of_one_form
def test_windows_that_are_decoded_together_say_what_they_say_alone(pair: Pair) -> None:
    """Each has a prompt of its own length and begins at another step; places move when windows before them end."""
    random = numpy.random.default_rng(2)
    mels = [random.standard_normal((1, 80, 3000)).astype(numpy.float32) for _ in range(3)]
    prompts = [pair.words.prompt("de", list(range(1000, 1000 + count)), 300) for count in (0, 219, 40)]
    alone = []
    for mel, prompt, temperature in zip(mels, prompts, (0.0, 0.0, 0.6), strict=True):
        batch = pair.batch([mel])
        batch.begin(0, prompt, temperature)
        alone.append(finished(batch)[0])
    batch = pair.batch(mels)
    ended: list[Decoded] = []
    for place, (prompt, temperature) in enumerate(zip(prompts, (0.0, 0.0, 0.6), strict=True)):
        batch.begin(place, prompt, temperature)
        for _ in range(5):
            assert batch.step() == []
    while batch._texts:
        for place, decoded in batch.step():
            ended.append(decoded)
            batch.remove(place)
    assert sorted(one.tokens for one in ended) == sorted(one.tokens for one in alone)
    assert sorted(one.avg_logprob for one in ended) == pytest.approx(sorted(one.avg_logprob for one in alone), rel=1e-3)


@of_one_form
def test_an_ended_window_may_begin_anew_beside_others(pair: Pair) -> None:
    prompt = pair.words.prompt("de", (), 1)
    expected = pair.decoded(prompt)
    batch = pair.batch([pair.mel, pair.mel])
    batch.begin(0, pair.words.prompt("de", list(range(1000, 1219)), 300), 0.0)
    for _ in range(5):
        assert batch.step() == []
    batch.begin(1, prompt, 0.0)
    (first,) = _until_one_ends(batch)
    batch.begin(first[0], prompt, 0.0)
    found = finished(batch)
    assert expected.tokens in {one.tokens for one in (*found.values(), first[1])}
    assert [one.tokens for one in found.values()].count(expected.tokens) >= 1


def _until_one_ends(batch: Batch) -> list[tuple[int, Decoded]]:
    while not (ended := batch.step()):
        pass
    return ended


@of_one_form
def test_sampling_varies_with_the_temperature_and_repeats_itself(pair: Pair) -> None:
    prompt = pair.words.prompt("en", (), 1)
    warm = pair.decoded(prompt, 0.8)
    assert warm == pair.decoded(prompt, 0.8)
    assert warm.tokens != pair.decoded(prompt).tokens


@of_one_form
@pytest.mark.parametrize("temperature", [5e-324, 1e-40, 1e-9, 9e-5])
def test_temperatures_that_nothing_can_be_divided_by_are_greedy(pair: Pair, temperature: float) -> None:
    prompt = pair.words.prompt("en", (), 1)
    with warnings.catch_warnings(action="error"):
        assert pair.decoded(prompt, temperature).tokens == pair.decoded(prompt).tokens


@of_one_form
@pytest.mark.parametrize("temperature", [1e-4, 1e-3])
def test_the_smallest_that_are_sampled_are_numbers(pair: Pair, temperature: float) -> None:
    assert numpy.isfinite(pair.decoded(pair.words.prompt("en", (), 1), temperature).avg_logprob)


@of_one_form
def test_cancel_is_asked_before_each_token(pair: Pair) -> None:
    cancel = threading.Event()
    batch = Batch(pair.graphs, pair.words, 1, cancel)
    batch.listen(0, pair.mel)
    batch.begin(0, pair.words.prompt("en", (), 1), 0.0)
    assert batch.step() == []
    cancel.set()
    for call in (batch.step, lambda: batch.listen(0, pair.mel), lambda: batch.begin(0, [pair.words.start], 0.0)):
        with pytest.raises(Cancelled):
            call()


@of_one_form
def test_a_failing_runtime_is_an_engine_failure(pair: Pair) -> None:
    with pytest.raises(EngineFailure, match="failed while computing"):
        pair.graphs.listen(pair.mel[:, :1], pair.audio)


def test_a_text_goes_on_once_behind_an_end_that_comes_too_early(tmp_path: Path) -> None:
    start, end = tiny_whisper.timestamp(0.0), tiny_whisper.special("endoftext")
    source = tiny_whisper.build(tmp_path / "checkpoint", taught=tiny_whisper.script(start, 1000, end))
    files = whisper.convert(source, tmp_path / "converted")
    engine = OnnxSpeechToText(ModelSpec("asr", "tiny", "", files, threads=1, options={"quantization": "none"}))
    engine.heat()
    model = engine._model._model  # type: ignore[union-attr]
    asked: list[list[int]] = []

    def decoded(*, may_end: bool) -> Decoded:
        def ends(said: Sequence[int]) -> bool:
            asked.append(list(said))
            return may_end

        batch = Batch(model.graphs, model.vocabulary, 1, threading.Event())
        batch.listen(0, numpy.zeros((1, 80, 3000), numpy.float32))
        batch.begin(0, model.vocabulary.prompt("en", (), 100), 0.0, ends)
        return finished(batch)[0]

    short, longer = decoded(may_end=True), decoded(may_end=False)
    engine.close()
    assert short.tokens == (start, 1000)
    assert longer.tokens[:2] == short.tokens
    assert len(longer.tokens) == 3
    assert asked == [[start, 1000], [start, 1000]], "the second end counts, whatever it leaves out"
