from __future__ import annotations

import struct
from pathlib import Path

import pytest

from edgeserve.engines.llama.projector_shape import FEWEST_TOKENS, ProjectorShape, read_projector_shape
from edgeserve.errors import EngineFailure

MB = 1 << 20
FIXED = ProjectorShape(patches=576, patch=14, merge=1, width=1024, feed_forward=4096, most_tokens=0)
FREE = ProjectorShape(patches=1024, patch=14, merge=2, width=1280, feed_forward=3420, most_tokens=4096)


def header(path: Path, texts: dict[str, str], numbers: dict[str, int]) -> Path:
    def name(text: str) -> bytes:
        return struct.pack("<Q", len(text)) + text.encode()

    pairs = [name(key) + struct.pack("<I", 8) + name(value) for key, value in texts.items()]
    pairs += [name(key) + struct.pack("<II", 4, value) for key, value in numbers.items()]
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs))
    return path


def test_read(tmp_path: Path) -> None:
    sizes = {"image_size": 560, "patch_size": 14, "embedding_length": 1280, "feed_forward_length": 3420}
    numbers = {f"clip.vision.{key}": value for key, value in sizes.items()}
    path = header(tmp_path / "mmproj.gguf", {"clip.projector_type": "qwen2.5vl_merger"}, numbers)
    assert read_projector_shape(path) == ProjectorShape(1600, 14, 2, 1280, 3420, 4096)


def test_a_file_that_is_no_projector(tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match="no vision projector"):
        read_projector_shape(header(tmp_path / "llm.gguf", {"general.architecture": "llama"}, {}))


def test_a_fixed_size_saves_nothing() -> None:
    assert FIXED.tokens(100) == 576
    assert FIXED.savable(0) == 0
    assert 30 * MB < FIXED.image_bytes(0) < 60 * MB


def test_smaller_pictures_save_what_is_asked() -> None:
    offered = FREE.savable(0)
    assert offered == FREE.image_bytes(4096) - FREE.image_bytes(FEWEST_TOKENS)
    assert FREE.fewer(0, offered) == FEWEST_TOKENS
    fewer = FREE.fewer(0, offered // 3)
    assert FREE.image_bytes(0) - FREE.image_bytes(fewer) == pytest.approx(offered / 3, rel=0.01)
    assert FREE.savable(FEWEST_TOKENS) == 0
    assert FREE.savable(100) == 0, "never more than is configured"
    assert FREE.fewer(100, MB) == 100
