"""The text of a models.toml for a machine that has none. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from edgeserve.dataclass import dataclass
from edgeserve.jobs import INFO, Job


@dataclass(frozen=True, slots=True)
class Chosen:
    """A model for its job. ``words`` about its size and speed go beside it as a comment."""

    job: Job
    name: str
    words: str = ""


def settings(chosen: Iterable[Chosen], about: str, *, key: str = "") -> str:
    """The file. ``about``: the machine, in words; ``key``: other machines may use the server with it, empty: none may.

    Names and keys are written as JSON strings, which are TOML strings as well.
    """
    return "\n".join([*_lines(chosen, about, key), ""])


def _lines(chosen: Iterable[Chosen], about: str, key: str) -> Iterator[str]:
    yield f"# Written by `edgeserve init` for {about}."
    yield "# Every key, its bounds and its variable: docs/configuration.md."
    yield ""
    yield "[server]"
    if key:
        yield 'host = "0.0.0.0"               # other machines may ask, with this key:'
        yield f"api_key = {json.dumps(key)}"
    else:
        yield '# host = "0.0.0.0"             # lets other machines in, and needs a key:'
        yield '# api_key = ""'
    for one in chosen:
        yield ""
        yield f"[{one.job}]".ljust(30) + f" # {INFO[one.job].words}"
        line = f"model = {json.dumps(one.name)}"
        yield line.ljust(30) + f" # {one.words}" if one.words else line
