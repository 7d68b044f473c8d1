"""What a user means by the name of a model: a catalogue name, a hub repository, an address, or a path."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgeserve import catalog, catalog_entry
from edgeserve.catalog_entry import Kind
from edgeserve.errors import NotFound, StoreError
from edgeserve.sources.source import HubSource, Source, UrlSource

__all__ = ["Kind", "Wanted", "plain", "understand"]

CHECKPOINT_FILES = {"checkpoint": "model.bin", "config": "config.json", "tokenizer": "tokenizer.json"}
MLX_WEIGHTS = ("weights.safetensors", "weights.npz")
"""Either beside config.json makes a model for mlx-whisper, which looks for them in this order."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model to pull (``sources``), to convert from a local folder (``checkpoint``), or used in place (``here``)."""

    name: str
    job: Kind
    engine: str
    sources: tuple[Source, ...] = ()
    size_bytes: int = 0
    licence: str = "unknown"
    checksums: Mapping[str, str] = field(default_factory=dict)
    convert: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    here: Mapping[str, Path] | None = None
    checkpoint: Path | None = None

    @property
    def companions(self) -> Mapping[str, str]:
        """Models that go with it, by the role that their one file has for its engine."""
        return catalog.COMPANIONS.get(self.job, {})


def understand(what: str, *, offline: bool = False) -> Wanted:
    """Raises NotFound for a name that means nothing, StoreError for a source that holds no known kind of model.

    ``offline``: only say what the model would be called; no hub is asked.
    """
    if what.startswith("hub:"):
        return _hub(what.removeprefix("hub:"), offline)
    if re.match(r"https?://", what):
        return _of_file(what.split("?")[0].rsplit("/", 1)[-1], (UrlSource(what),))
    path = Path(what).expanduser()
    if path.exists():
        return _local(path)
    if what.startswith(("/", "./", "../", "~")) or what.endswith((".gguf", ".onnx")):
        raise NotFound(f"{what}: no such file", param="model")
    entry = catalog.find(what)
    names = ("name", "job", "engine", "sources", "size_bytes", "licence", "checksums", "convert", "options")
    return Wanted(**{name: getattr(entry, name) for name in names})


def _hub(text: str, offline: bool) -> Wanted:
    address, _, revision = text.partition("@")
    owner, _, rest = address.partition("/")
    repository, _, file = rest.partition("/")
    if not owner or not repository:
        raise NotFound(f"hub:{text}: expected hub:owner/repository/file.gguf, or hub:owner/repository", param="model")
    where = f"{owner}/{repository}"
    if file:
        return _of_file(file.rsplit("/", 1)[-1], (HubSource(where, {"model": file}, revision or "main"),))
    source = HubSource(where, CHECKPOINT_FILES, revision or "main")
    name = plain(repository)
    if name in catalog.MODELS:  # mlx-community/whisper-tiny is not our whisper-tiny
        name = plain(f"{owner}-{repository}")
    if not offline:
        from edgeserve.sources import hub

        there = hub.list_files(where, source.revision)
        if files := _mlx_files(there):
            return Wanted(name, "asr", catalog_entry.MLX_WHISPER, (dataclasses.replace(source, members=files),))
        if missing := set(CHECKPOINT_FILES.values()) - set(there):
            raise StoreError(
                f"{source} is no Whisper checkpoint (it lacks {', '.join(sorted(missing))}), nor one for MLX "
                f"({' or '.join(MLX_WEIGHTS)}); name a file of it"
            )
    return Wanted(name, "asr", catalog_entry.ENGINES["asr"], (source,), convert="whisper")


def _mlx_files(names: Container[str]) -> dict[str, str]:
    """Files of a model for mlx-whisper by role; nothing when they are not all there."""
    weights = next((name for name in MLX_WEIGHTS if name in names), None)
    return {"weights": weights, "config": "config.json"} if weights and "config.json" in names else {}


def _of_file(file: str, sources: tuple[Source, ...]) -> Wanted:
    if not file.endswith(".gguf"):
        raise StoreError(f"{file}: only GGUF files can be pulled by address; other models need their catalogue entry")
    return Wanted(plain(file.removesuffix(".gguf")), "llm", catalog_entry.ENGINES["llm"], sources)


def _local(path: Path) -> Wanted:
    path = path.resolve()
    if path.is_dir() and (path / "model.bin").is_file():
        return Wanted(
            plain(path.name),
            "asr",
            catalog_entry.ENGINES["asr"],
            (),
            (path / "model.bin").stat().st_size,
            convert="whisper",
            checkpoint=path,
        )
    if path.is_dir() and (path / "decoder.onnx").is_file():
        from edgeserve.convert import whisper

        return Wanted(path.name, "asr", catalog_entry.ENGINES["asr"], here=whisper.files_in(path))
    if path.is_dir() and (files := _mlx_files([one.name for one in path.iterdir()])):
        here = {role: path / name for role, name in files.items()}
        return Wanted(plain(path.name), "asr", catalog_entry.MLX_WHISPER, here=here)
    if path.suffix == ".gguf":
        return Wanted(path.stem, "llm", catalog_entry.ENGINES["llm"], here={"model": path})
    if path.suffix == ".onnx":
        return Wanted(path.stem, "tts", catalog_entry.ENGINES["tts"], here={"model": path})
    raise StoreError(f"{path}: neither a GGUF or ONNX file nor a folder with a Whisper checkpoint or MLX weights")


def plain(name: str) -> str:
    """A name fit for a folder."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip(".-") or "model"
