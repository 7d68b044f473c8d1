"""The meaning of a model's name: a catalogue name, a hub repository, an address, or a path."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Container, Mapping
from dataclasses import field
from pathlib import Path
from urllib.parse import urlsplit

from edgeserve.dataclass import dataclass
from edgeserve.errors import NotFound, StoreError
from edgeserve.jobs import ENCODERS, INFO, MLX_WHISPER
from edgeserve.models import catalog, encoders
from edgeserve.models.entry import Kind
from edgeserve.models.sources.source import HubSource, Source, UrlSource

__all__ = ["Kind", "Wanted", "mending", "plain", "understand"]

CHECKPOINT_FILES = {"checkpoint": "model.bin", "config": "config.json", "tokenizer": "tokenizer.json"}
MLX_WEIGHTS = ("weights.safetensors", "weights.npz")
"""Weights of a model for mlx-whisper, beside config.json, in the order in which mlx-whisper looks for them."""
LONGEST_NAME = 120
"""Characters of a folder's name. File systems allow 255 bytes; the store's own prefixes take some."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model to pull (``sources``), to convert from a local folder (``checkpoint``), or to use in place (``here``).

    ``guessed``: the job and the engine may be wrong. For a whole repository of a hub that was not asked, they are
    Whisper's. For a GGUF file of an address, they are those of chat until the file is here.
    """

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
    in_catalogue: bool = False
    guessed: bool = False

    @property
    def companions(self) -> Mapping[str, str]:
        """Catalogue models that this model needs, by the role of their one file."""
        return catalog.COMPANIONS.get(self.job, {})

    def comes_from(self, source: str) -> bool:
        """Whether a stored model from ``source`` may be this model, and not another of the same name.

        A catalogue model's sources change with versions. A user's own address is never one of them.
        """
        if not self.sources or source in map(str, self.sources):
            return True
        return self.in_catalogue and not source.startswith(("http://", "https://"))


def understand(what: str, *, offline: bool = False) -> Wanted:
    """The model that ``what`` means.

    A catalogue name means the catalogue's model, even if a file here has the same name; ./NAME means the file. With
    ``offline`` no hub is asked. Raises NotFound for an unknown name, and StoreError for a source of no known kind.
    """
    if what.startswith("hub:"):
        return _hub(what.removeprefix("hub:"), offline)
    if re.match(r"https?://", what):
        return _address(what)
    if not catalog.knows(what):
        if path := _path(what):
            return _local(path)
        if is_path(what):
            raise NotFound(f"{what}: no such file", param="model")
    entry = catalog.find(what)
    names = ("name", "job", "engine", "sources", "size_bytes", "licence", "checksums", "convert", "options")
    return Wanted(**{name: getattr(entry, name) for name in names}, in_catalogue=True)


def is_path(what: str) -> bool:
    """Whether a name is that of a file or folder, be it there or not."""
    address = what.startswith(("hub:", "http:", "https:"))
    return not address and (what.startswith(("/", "./", "../", "~")) or what.endswith((".gguf", ".onnx")))


def mending(name: str, source: str = "") -> str:
    """The commands that mend a damaged model, as the end of a sentence. ``source``: its origin."""
    if catalog.knows(name):
        return f"`edgeserve pull {name}` mends it, `edgeserve remove {name}` removes it"
    again = f"`edgeserve pull {source}`" if source.startswith(("http://", "https://")) else "pull it again"
    return f"`edgeserve remove {name}`, then {again}"


def _path(what: str) -> Path | None:
    """The file or folder of this name, if it exists."""
    try:
        path = Path(what).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long for a path, an unknown user's home, a NUL
        return None


def _address(url: str) -> Wanted:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise StoreError(f"{url.split('?')[0]} is no address: {error}") from None
    return _of_file(parts.path.rsplit("/", 1)[-1], (UrlSource(url),), host)


def _hub(text: str, offline: bool) -> Wanted:
    address, _, revision = text.partition("@")
    owner, _, rest = address.partition("/")
    repository, _, file = rest.partition("/")
    if not owner or not repository:
        raise NotFound(f"hub:{text}: expected hub:owner/repository/file.gguf, or hub:owner/repository", param="model")
    where = f"{owner}/{repository}"
    if file:
        return _of_file(file.rsplit("/", 1)[-1], (HubSource(where, {"model": file}, revision or "main"),), owner)
    source = HubSource(where, CHECKPOINT_FILES, revision or "main")
    name = _own_name(repository, owner)
    if not offline:
        from edgeserve.models.sources import hub

        there = hub.list_files(where, source.revision)
        if files := _mlx_files(there):
            return Wanted(name, "asr", MLX_WHISPER, (dataclasses.replace(source, members=files),))
        if files := encoders.files(there):
            job = encoders.job_of(hub.read(source, "config.json"), source)
            return Wanted(name, job, ENCODERS[job], (dataclasses.replace(source, members=files),))
        if missing := set(CHECKPOINT_FILES.values()) - set(there):
            raise StoreError(
                f"{source} is no Whisper checkpoint (it lacks {', '.join(sorted(missing))}), nor one for MLX "
                f"({' or '.join(MLX_WEIGHTS)}), nor an encoder ({encoders.GRAPHS[0]}); name a file of it"
            )
    return Wanted(name, "asr", INFO["asr"].engine, (source,), convert="whisper", guessed=offline)


def _mlx_files(names: Container[str]) -> dict[str, str]:
    """Files of a model for mlx-whisper by role; empty when one is missing."""
    weights = next((name for name in MLX_WEIGHTS if name in names), None)
    return {"weights": weights, "config": "config.json"} if weights and "config.json" in names else {}


def _of_file(file: str, sources: tuple[Source, ...], origin: str) -> Wanted:
    if not file.endswith(".gguf"):
        raise StoreError(f"{file}: only GGUF files can be pulled by address; other models need their catalogue entry")
    return Wanted(_own_name(file.removesuffix(".gguf"), origin), "llm", INFO["llm"].engine, sources, guessed=True)


def _own_name(name: str, origin: str) -> str:
    """A name for a model from elsewhere. It never equals a catalogue name."""
    found = plain(name)
    while catalog.knows(found) or found == catalog.ALL_STARTER:  # mlx-community/whisper-tiny is not our whisper-tiny
        found = plain(f"{origin}-{found}") if plain(f"{origin}-{found}") != found else f"own-{found}"
    return found


def _local(path: Path) -> Wanted:
    path = path.resolve()
    if path.is_dir() and (path / "model.bin").is_file():
        return Wanted(
            _own_name(path.name, "local"),
            "asr",
            INFO["asr"].engine,
            (),
            (path / "model.bin").stat().st_size,
            convert="whisper",
            checkpoint=path,
        )
    if path.is_dir() and (path / "decoder.onnx").is_file():
        from edgeserve.models.convert import whisper

        return Wanted(path.name, "asr", INFO["asr"].engine, here=whisper.files_in(path))
    if path.is_dir() and (files := _mlx_files([one.name for one in path.iterdir()])):
        here = {role: path / name for role, name in files.items()}
        return Wanted(plain(path.name), "asr", MLX_WHISPER, here=here)
    if path.is_dir() and (files := encoders.files(_names_in(path))):
        job = encoders.job_of((path / files["config"]).read_bytes(), path)
        here = {role: path / name for role, name in files.items()}
        return Wanted(plain(path.name), job, ENCODERS[job], here=here)
    if path.suffix == ".gguf":
        return Wanted(path.stem, "llm", INFO["llm"].engine, here={"model": path})
    if path.suffix == ".onnx":
        return Wanted(path.stem, "tts", INFO["tts"].engine, here={"model": path})
    raise StoreError(
        f"{path}: neither a GGUF or ONNX file nor a folder with a Whisper checkpoint, MLX weights or an ONNX encoder"
    )


def _names_in(folder: Path) -> set[str]:
    """Paths of the files that a model of several files may have in a folder."""
    return {str(one.relative_to(folder)) for one in (*folder.glob("*"), *folder.glob("*/*")) if one.is_file()}


def plain(name: str) -> str:
    """The name with the characters and the length of a folder's name."""
    fit = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip(".-") or "model"
    if len(fit) <= LONGEST_NAME:
        return fit
    digest = hashlib.sha256(fit.encode()).hexdigest()[:16]
    return f"{fit[: LONGEST_NAME - len(digest) - 1]}-{digest}"
