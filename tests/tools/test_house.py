"""The counts of tools/house.py, on a house of five rooms."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest


def test_rooms_arrows_and_lengths(house: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {
        "edgeserve/__init__.py": '"""Not counted."""',
        "edgeserve/errors.py": "class Failure(Exception): ...",
        "edgeserve/api/line.py": "from edgeserve.errors import Failure\n\n\ndef run():\n    import edgeserve.api.sse\n",
        "edgeserve/api/sse.py": "import json\n\nfrom edgeserve import errors\n",
        "engines/llama/chat.py": "def load():\n    from edgeserve.engines.onnx import session\n",
        "engines/onnx/session.py": "def one():\n    pass\n",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    house.main([str(tmp_path)])
    assert capsys.readouterr().out.split("\n") == [
        "| folders with code; rooms | 4; 4 |",
        "| arrows between rooms; of them in `engines/` | 2; 1 |",
        "| files, median lines | 5, 2 |",
        "| longest file; files beyond 300 lines | 5; 0 |",
        "| functions: median, 95th percentile, longest, in lines | 2, 2, 2 |",
        "",
    ]
