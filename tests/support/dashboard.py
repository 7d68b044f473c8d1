"""The dashboard of docs/grafana, and its queries as Grafana would send them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "docs" / "grafana" / "edgeserve.json").read_text(encoding="utf-8")
)


def queries() -> list[str]:
    """The queries of all panels and annotations, each once, for all servers."""
    found = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())]
    found += [one["expr"] for one in BOARD["annotations"]["list"]]
    return list(dict.fromkeys(one.replace("$instance", ".*") for one in found))
