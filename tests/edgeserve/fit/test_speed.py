"""Speeds that follow from a machine's figures."""

from __future__ import annotations

from typing import Any

import pytest

from edgeserve.fit import speed
from edgeserve.fit.speed import Rates
from edgeserve.models import catalog
from edgeserve.models.entry import Entry

RATES = Rates(bandwidth=10e9, operations=100e9, weights=1e12)
SHAPE = {"layers": 10, "width": 100, "feed_forward": 400, "key_value_width": 200, "vocabulary": 1000}


def entry(**more: object) -> Entry:
    given = {"sizes": {"model": 1_000_000_000}, "parameters": 2_000_000, "shape": SHAPE, **more}
    return Entry("m", more.pop("job", "llm"), "", "MIT", 1_000_000_000, (), **given)  # type: ignore[arg-type]


def test_a_token_reads_all_weights_and_the_cached_keys_and_values() -> None:
    assert speed.cached_bytes(entry()) == 10 * 200 * 2
    assert speed.answers(entry(), RATES) == pytest.approx(10e9 / (1e9 + 512 * 4000))


def test_the_share_of_a_token_that_does_not_grow_bounds_the_speed_of_small_models() -> None:
    slow = Rates(10e9, 100e9, 1e12, token_seconds=0.01)
    tiny = entry(sizes={"model": 1000}, shape={})
    assert speed.answers(tiny, slow) == pytest.approx(100, rel=0.01)
    assert 1 / speed.answers(entry(), slow) == pytest.approx(1 / speed.answers(entry(), RATES) + 0.01)


def test_the_slower_of_memory_and_processor_decides() -> None:
    slow = Rates(10e9, 100e9, weights=1e6)
    assert speed.answers(entry(), slow) == pytest.approx(0.5), "2,000,000 weights"
    assert speed.answers(entry(shape={**SHAPE, "untied": 1}), slow) == pytest.approx(1 / 1.9)


def test_the_processor_is_expected_from_matrices_where_no_model_was_timed() -> None:
    assert Rates(1.0, 100e9).decoded == pytest.approx(speed.DECODE_SHARE * 50e9)
    assert Rates(1.0, 100e9, 7.0).decoded == 7.0


def test_an_input_table_apart_is_not_read() -> None:
    both = entry(shape={**SHAPE, "untied": 1})
    assert speed.bytes_of_token(both) == 950_000_000, "a table of 100,000 of 2,000,000 numbers"
    assert speed.bytes_of_token(entry()) == 1_000_000_000


def test_a_projector_is_not_read_with_every_token() -> None:
    seeing = Entry("v", "vision", "", "MIT", 900, (), sizes={"mmproj": 300})
    assert speed.bytes_of_token(seeing) == 600


def test_a_prompt_multiplies_all_but_the_token_table() -> None:
    assert speed.prompts(entry(), RATES) == pytest.approx(speed.PROMPT_SHARE * 100e9 / (2 * 1_900_000))
    assert speed.prompts(entry(shape={**SHAPE, "untied": 1}), RATES) == pytest.approx(
        speed.PROMPT_SHARE * 100e9 / (2 * 1_800_000)
    )
    assert speed.prompts(entry(parameters=0), RATES) is None


def test_each_job_has_its_unit() -> None:
    def of(name: str) -> Any:
        return speed.expected(catalog.find(name), RATES)

    chat, hears, embeds = of("qwen3-0.6b"), of("whisper-small"), of("bge-m3")
    assert (chat.unit, hears.unit, embeds.unit) == ("tokens/s", "times real time", "tokens/s")
    assert chat.prompt is not None
    assert hears.prompt is None
    assert embeds.answer == embeds.prompt
    assert of("hibari") is None
    assert of("kokoro") is None, "its parameters say little: each is used many times a second"


def test_a_larger_whisper_is_slower_and_a_small_decoder_helps() -> None:
    names = ("whisper-tiny", "whisper-base", "whisper-small", "whisper-medium", "whisper-large-v3")
    speeds = [speed.hears(catalog.find(name), RATES) for name in names]
    assert all(speeds)
    assert speeds == sorted(speeds, reverse=True)  # type: ignore[type-var]
    turbo = speed.hears(catalog.find("whisper-large-v3-turbo"), RATES)
    assert turbo
    assert turbo > (speeds[-1] or 0)
    assert speed.hears(Entry("w", "asr", "", "MIT", 1, ()), RATES) is None
    assert speed.hears(Entry("w", "asr", "", "MIT", 1, (), parameters=5), RATES) is None


def test_whisper_tiny_matches_its_measurement() -> None:
    """557 s of sound took 35 s on one thread (docs/models.md), where a float32 product reaches 100 GFLOPS."""
    found = speed.hears(catalog.find("whisper-tiny.en"), Rates(10e9, 100e9))
    assert found == pytest.approx(557 / 35, rel=0.2)
