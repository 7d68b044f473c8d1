"""Stored models that are behind the catalogue. Pure functions."""

from __future__ import annotations

from edgeserve.models.entry import Entry
from edgeserve.models.manifest import Manifest


def reason(entry: Entry, known: Manifest) -> str:
    """The reason why a stored model is no longer the one of the catalogue; empty when it is.

    The files of a conversion have no checksums in the catalogue. There, source and format decide.
    """
    if known.outdated:
        return "converted by an older edgeserve"
    if known.source not in map(str, entry.sources):
        return f"it came from {known.source}, and the catalogue now has {entry.source}"
    if entry.convert:
        return ""
    changed = [
        role
        for role, checksum in entry.checksums.items()
        if role in known.files and known.files[role].sha256 != checksum
    ]
    return f"the catalogue has another file: {', '.join(changed)}" if changed else ""
