"""The catalogue: known models, by the names that users say."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from edgeserve.errors import NotFound
from edgeserve.jobs import INFO
from edgeserve.models import listing, starter
from edgeserve.models.entry import Entry, Kind, for_mlx

PICTURES = "edgeserve.engines.llama.pixels:rgb"
"""Import string of the function that decodes pictures, in children."""
PICTURES_LOADED = "edgeserve.engines.llama.pixels_loaded"
"""The module whose import loads that decoder."""
DEVICES = "edgeserve.engines.llama.devices:devices"
"""Import string of the function that reads the accelerators' memory."""
SWEEP = "edgeserve.engines.llama.states_folder:sweep"
"""The function that removes saved conversations which nobody keeps any more."""
JOB_OF = "edgeserve.engines.llama.purpose:job_of"
"""Import string of the function that finds the job of a GGUF file."""
ALLOCATOR = "edgeserve.engines.asr.mlx_memory:MlxAllocator"
"""Import string of the allocator that keeps freed memory."""
COMPANIONS: Mapping[Kind, Mapping[str, str]] = MappingProxyType(
    {job: one.companions for job, one in INFO.items() if one.companions}
)
"""Models that are pulled with every model of a job, by the role of their file."""

ALL_STARTER = "starter"
"""Name of all starter models together, for ``edgeserve pull``."""


class Catalogue(Mapping[str, Entry]):
    """All entries by name. The first look reads ``catalog.toml``: a server of starter models never does."""

    def __getitem__(self, name: str) -> Entry:
        return _everything()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_everything())

    def __len__(self) -> int:
        return len(_everything())


MODELS: Mapping[str, Entry] = Catalogue()


def _by_any_name(entries: Mapping[str, Entry]) -> Mapping[str, Entry]:
    return {name.lower(): entry for entry in entries.values() for name in (entry.name, *entry.aliases)}


_STARTER = _by_any_name({entry.name: entry for entry in starter.ENTRIES})


@functools.cache
def _everything() -> Mapping[str, Entry]:
    entries = (*starter.ENTRIES, *listing.read())
    both = (*entries, *(for_mlx(entry) for entry in entries if entry.convert == "whisper"))
    return MappingProxyType({entry.name: entry for entry in both})


@functools.cache
def _all_names() -> Mapping[str, Entry]:
    return _by_any_name(_everything())


def knows(name: str) -> bool:
    """Whether the name is a name or an alias of the catalogue, in any case."""
    return name.lower() in _STARTER or name.lower() in _all_names()


def find(name: str) -> Entry:
    """The entry of a name or alias, in any case. Raises NotFound with the closest names."""
    found = _STARTER.get(name.lower()) or _all_names().get(name.lower())
    if found is None:
        import difflib  # for mistakes only

        near = difflib.get_close_matches(name.lower(), _all_names(), n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "see `edgeserve list --all`"
        raise NotFound(f"no model is called {name!r}; {hint}", param="model")
    return found
