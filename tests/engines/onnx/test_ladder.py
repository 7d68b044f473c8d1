"""The rungs of a model on ONNX Runtime, on files that count what is asked of them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from edgeserve.engine import Footprint, ModelSpec, Rung
from edgeserve.engines.onnx.ladder import OnnxLadder
from edgeserve.errors import EngineFailure


class Files:
    """A model of one file, which is mapped if ``maps``."""

    packages: Sequence[str] = ("wave",)

    def __init__(self, path: Path, *, maps: bool, fails: bool = False) -> None:
        self.steps: list[str] = []
        self.mapped: tuple[Path, ...] = ()
        self._path, self._maps, self._fails = path, maps, fails

    def open(self) -> str:
        self.steps.append("open")
        if self._fails:
            raise EngineFailure("no model")
        self.mapped = (self._path,) if self._maps else ()
        return "model"

    def close(self) -> None:
        self.steps.append("close")
        self.mapped = ()

    def estimate(self) -> Footprint:
        return Footprint(1, 2, 3)

    def prefetch_files(self) -> Iterable[Path]:
        return [self._path]

    def folders(self) -> Iterable[Path]:
        return {self._path.parent}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(bytes(4096))
    return path


def ladder(path: Path, files: Files) -> OnnxLadder[str]:
    return OnnxLadder(ModelSpec("asr", "m", "", {"model": path}), files)


@pytest.mark.slow
@pytest.mark.parametrize(("maps", "parked"), [(True, Rung.WARM), (False, Rung.COLD)])
def test_a_model_without_mapped_weights_is_closed_when_parked(path: Path, maps: bool, parked: Rung) -> None:
    files = Files(path, maps=maps)
    engine = ladder(path, files)
    engine.heat()
    assert engine.rung is Rung.HOT
    assert "wave" in sys.modules
    engine.park()
    assert engine.rung is parked
    engine.close()
    engine.close()
    assert files.steps == ["open", "close"]
    assert engine.footprint() == Footprint()


def test_below_hot_there_is_no_model(path: Path) -> None:
    engine = ladder(path, Files(path, maps=True))
    engine.open()
    with pytest.raises(EngineFailure, match="m is warm, not hot"):
        engine._opened()
    engine.heat()
    assert engine._opened() == "model"
    engine.close()


def test_a_model_that_fails_stays_cold(path: Path) -> None:
    files = Files(path, maps=True, fails=True)
    engine = ladder(path, files)
    with pytest.raises(EngineFailure, match="no model"):
        engine.open()
    assert engine.rung is Rung.COLD
    path.unlink()
    with pytest.raises(EngineFailure, match=r"model\.onnx: no such file"):
        engine.open()
    assert files.steps == ["open"]


def test_figures_and_rights_are_those_of_the_files(path: Path) -> None:
    engine = ladder(path, Files(path, maps=True))
    assert engine.estimate() == Footprint(1, 2, 3)
    assert (list(engine.prefetch_files()), engine.access().read) == ([path], (path.parent,))
