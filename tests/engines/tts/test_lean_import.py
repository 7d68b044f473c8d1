"""An optional package that is left out is missing for one import only, and for no other thread."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edgeserve.engines.tts.lean_import import without

ROOT = Path(__file__).parents[3]


@pytest.fixture
def optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "optional_part.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "optional_part", raising=False)
    return "optional_part"


def test_it_is_missing_inside_and_there_again_afterwards(optional: str) -> None:
    with without(optional), pytest.raises(ModuleNotFoundError):
        importlib.import_module(optional)
    assert importlib.import_module(optional)


def test_another_thread_finds_it_meanwhile(optional: str) -> None:
    with without(optional):
        other = threading.Thread(target=importlib.import_module, args=(optional,))
        other.start()
        other.join()
        assert optional in sys.modules


@pytest.mark.slow
def test_the_phonemizer_leaves_scipy_out() -> None:
    """In a process of its own: what is loaded stays. Where SciPy is not installed this holds by itself."""
    code = "import sys; from edgeserve.engines.tts import phonemes; phonemes.load(); print('scipy.fft' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert told.stdout.strip() == "False"
