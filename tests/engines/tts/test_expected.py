"""The memory of voices that are not here, compared with the estimates for those that are."""

from __future__ import annotations

import pytest

from edgeserve.engine import Listed, ModelSpec
from edgeserve.engines.tts.expected import footprint
from edgeserve.models import catalog
from edgeserve.models.store import Store
from edgeserve.named import make_engine


def listed(name: str) -> Listed:
    entry = catalog.find(name)
    return Listed("tts", entry.sizes, entry.size_bytes, options=entry.options)


def test_an_unknown_family_has_no_expectation() -> None:
    assert footprint(Listed("tts", {}, 1, options={"family": "parrot"})) is None


def test_a_british_voice_brings_its_table() -> None:
    both = footprint(listed("kokoro"))
    american = {role: size for role, size in catalog.find("kokoro").sizes.items() if not role.startswith("b")}
    one = footprint(Listed("tts", american, sum(american.values()), options={"family": "kokoro"}))
    assert both
    assert one
    assert both.mapped > one.mapped


def test_a_voice_of_unknown_size_is_expected_by_the_size_of_all() -> None:
    found = footprint(Listed("tts", {"config": 10}, 63_000_000, options={"family": "piper"}))
    assert found
    assert found.mapped >= 63_000_000
    assert found.private > 0


@pytest.mark.models
@pytest.mark.parametrize("name", ["hibari", "piper-en-us-joe-medium"])
def test_a_voice_is_expected_as_its_engine_estimates_it(name: str, store: Store) -> None:
    store.pull(name)
    stored = store.find(name)
    spec = ModelSpec("tts", name, stored.engine, stored.files, options=stored.options)
    assert footprint(listed(name)) == make_engine(spec).estimate()
