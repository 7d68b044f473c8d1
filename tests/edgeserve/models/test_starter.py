"""The models that were pulled and used where edgeserve is built."""

from __future__ import annotations

from support.cases import each

from edgeserve.jobs import STARTER
from edgeserve.models import starter
from edgeserve.models.entry import Entry
from edgeserve.models.sources.source import PackageSource

NAMES = {entry.name for entry in starter.ENTRIES}


def test_every_starter_model_and_its_companions_are_here() -> None:
    assert {*STARTER.values(), "silero-vad"} <= NAMES


@each("entry", starter.ENTRIES)
def test_they_are_verified_pinned_and_checksummed(entry: Entry) -> None:
    assert entry.verified
    source = entry.sources[0]
    assert isinstance(source, PackageSource)
    assert len(source.sha256) == 64
    assert set(entry.checksums) == set(source.members)
    assert sum(entry.sizes.values()) in (0, entry.size_bytes)
