"""``edgeserve qr``: the address, and the key behind a "#"."""

from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.commands import run, told

from edgeserve.commands import qr


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were drawn, by a stand-in for segno."""
    texts: list[str] = []

    class Code:
        def terminal(self, out: Any, compact: bool) -> None:
            assert compact
            out.write("<code>\n")

    def make(text: str, error: str, micro: bool) -> Code:
        assert not micro
        texts.append(text)
        return Code()

    module: Any = ModuleType("segno")
    module.make = make
    monkeypatch.setitem(sys.modules, "segno", module)
    monkeypatch.setattr(qr, "own_addresses", lambda: ["192.0.2.7"])
    return texts


def test_the_key_stands_where_no_log_has_it(
    settings: Path, drawn: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {"EDGESERVE_HOST": "0.0.0.0", "EDGESERVE_API_KEY": "a/b+c", "EDGESERVE_TLS": "self-signed",
               "EDGESERVE_PORT": "8443"}  # fmt: skip
    assert run("qr", environ=environ) == 0
    out = capsys.readouterr().out
    assert drawn == ["https://192.0.2.7:8443/#key=a%2Fb%2Bc"]
    assert out.startswith("<code>\nhttps://192.0.2.7:8443\n")
    assert "a/b+c" not in out
    assert "The code holds the key" in out
    assert run("qr", "--no-key", environ=environ) == 0
    assert drawn[-1] == "https://192.0.2.7:8443/"


def test_a_telephone_cannot_reach_this_machine_alone(
    settings: Path, drawn: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("qr", environ={"EDGESERVE_PORT": "8080"}) == 0
    assert drawn == ["http://127.0.0.1:8080/"]
    assert "No telephone reaches this address" in capsys.readouterr().out
    assert run("qr", "--url", "https://box.lan") == 0
    assert drawn[-1] == "https://box.lan/"
    assert "No telephone" not in capsys.readouterr().out


def test_without_segno(settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "segno", None)
    assert run("qr", "--url", "https://box.lan") == 2
    assert "https://box.lan: a QR code needs the package segno: pip install segno" in told(capsys)[0]


@pytest.mark.skipif(importlib.util.find_spec("segno") is None, reason="segno is not installed: pip install segno")
def test_the_code_is_drawn_by_segno(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half blocks: two rows of modules a line, with a margin of four modules on each side."""
    import segno

    environ = {"EDGESERVE_API_KEY": "a/b+c", "EDGESERVE_PORT": "8080"}
    assert run("qr", "--url", "https://box.lan", environ=environ) == 0
    drawn = io.StringIO()
    segno.make("https://box.lan/#key=a%2Fb%2Bc", error="m", micro=False).terminal(out=drawn, compact=True)
    picture, _, rest = capsys.readouterr().out.partition("\nhttps://box.lan\n")
    assert picture == drawn.getvalue().rstrip("\n")
    assert len(picture.splitlines()) > 15
    assert "The code holds the key" in rest
