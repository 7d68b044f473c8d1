"""docs/clients.md, made of what the tests of clients found.

    python tools/clients_page.py FOUND.json docs/clients.md

FOUND.json: {client: {"version": TEXT, "features": {feature: "passed", "skipped" or "failed"}}}, as the tests of clients
write it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WORDS = {"passed": "yes", "failed": "**no**", "skipped": "not run"}
COMMON = 4
"""Clients with a feature that has a column of its own."""
HEAD = """\
# Clients

These programs work with edgeserve by changing one address. The tests in `tests/clients` run them
against a server on the starter models, and `make clients` makes this table from what passed. Each
client runs in the latest version of its package index. Home Assistant and Open WebUI do not run
here: the tests send their requests, as their sources write them.

An empty cell says nothing: no test asks that of the client, or the client does not have it.

"""
FOOT = """
The base address is `http://127.0.0.1:8080/v1` for clients of OpenAI's API, and
`http://127.0.0.1:8080` for clients of [Ollama's](api/ollama.md#clients). Their key may be any text
where the server has none. Names of models that are not here mean the job's default
([names](configuration.md#names-of-models-that-are-not-here)).
"""


def page(found: Mapping[str, Any]) -> str:
    """The page as Markdown: a row for each client, a column for each feature of several, and one for the others."""
    counted = Counter(feature for one in found.values() for feature in one["features"])
    common = [feature for feature, count in counted.items() if count >= COMMON]
    features = sorted(common, key=lambda feature: (-counted[feature], feature))  # whatever ran first
    lines = [["client", "version", *features, "also"], ["---"] * (3 + len(features))]
    for name, one in sorted(found.items(), key=lambda pair: pair[0].removeprefix("npm:").lower()):
        shown = f"{name.removeprefix('npm:')} (npm)" if name.startswith("npm:") else name
        cells = (WORDS.get(one["features"].get(feature, ""), "") for feature in features)
        also = (_also(*pair) for pair in one["features"].items() if pair[0] not in features)
        lines.append([shown, one["version"] or "not installed", *cells, ", ".join(also)])
    return HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines) + FOOT


def _also(feature: str, outcome: str) -> str:
    return feature if outcome == "passed" else f"{feature} ({WORDS[outcome]})"


def main(source: str, target: str) -> None:
    found = json.loads(Path(source).read_text(encoding="utf-8"))
    Path(target).write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
