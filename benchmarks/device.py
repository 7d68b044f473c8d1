"""The device under measurement: its models, its learned peaks, which start empty, and its models.toml.

This process loads no runtime and no numpy. Pages that two processes map count half for each, and the server would
look smaller.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import dataclasses
import json
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import ServerProcess, serving

import edgeserve
from edgeserve.errors import ModelMissing
from edgeserve.jobs import INFO, JOBS, Job
from edgeserve.models.folder import default_root
from edgeserve.models.store import Store, StoredModel


@dataclass(frozen=True, slots=True)
class Models:
    """Names, paths or addresses as in models.toml. Without ``vision`` the language model sees, through a small
    projector that is built for it: no vision model is among the starter models."""

    llm: str = "smollm2-135m-instruct"
    vision: str = ""
    mmproj: str = ""
    asr: str = "whisper-tiny.en"
    tts: str = "hibari"

    def names(self) -> dict[Job, str]:
        return {"llm": self.llm, "vision": self.vision or self.llm, "asr": self.asr, "tts": self.tts}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--llm, --vision, --mmproj, --asr, --tts."""
    for one in dataclasses.fields(Models):
        help = f"default: {one.default or 'the language model, with a projector built for it'}"
        parser.add_argument(f"--{one.name}", default=one.default, metavar="MODEL", help=help)


def chosen(arguments: argparse.Namespace) -> Models:
    return Models(**{one.name: getattr(arguments, one.name) for one in dataclasses.fields(Models)})


@dataclass(frozen=True, slots=True)
class Device:
    """``environ``: variables that lead a server to models and learned peaks. ``picture``: a PNG to ask about."""

    folder: Path
    models: Models
    environ: Mapping[str, str]
    picture: bytes

    def config(self, name: str, jobs: Iterable[Job] = JOBS, keys: str = "", **tables: Mapping[str, object]) -> Path:
        """Write models.toml: these engines, each with the lines ``keys``, and the tables by their names."""
        names = self.models.names()
        parts = [toml(table, values) for table, values in tables.items()]
        for job in jobs:
            mmproj = {"mmproj": self.models.mmproj} if job == "vision" and self.models.mmproj else {}
            parts.append(toml(job, {"model": names[job], **mmproj}) + keys)
        path = self.folder / f"{name}.toml"
        path.write_text("\n".join(parts), encoding="utf-8")
        return path

    def forget(self) -> None:
        """Remove the learned peaks and saved conversations, so that the next server does not know them."""
        beside = Path(self.environ["EDGESERVE_MODELS_DIR"]).parent
        (beside / "memory.json").unlink(missing_ok=True)
        shutil.rmtree(beside / "states", ignore_errors=True)


def toml(table: str, values: Mapping[str, object]) -> str:
    """One table of texts, numbers and booleans, whose JSON is TOML."""
    return "".join([f"[{table}]\n", *(f"{key} = {json.dumps(value)}\n" for key, value in values.items())])


def prepare(folder: Path, models: Models) -> Device:
    """Pull what is not here. The models are linked from a new folder, since the learned peaks lie beside its store."""
    compile_modules()
    root, stored = linked(folder / "device", [*models.names().values(), *companions(models.names())])
    files = {job: stored[name].files for job, name in models.names().items()}
    wanted = "" if models.mmproj or "mmproj" in files["vision"] else str(folder / "mmproj.gguf")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
        picture = child.submit(_make_picture, str(files["vision"]["model"]), wanted).result()
    if wanted:
        models = dataclasses.replace(models, mmproj=wanted)
    return Device(folder, models, {"EDGESERVE_MODELS_DIR": str(root)}, picture)


def compile_modules() -> None:
    """Write the bytecode that an installed server has. A checkout may lack some, and each process would compile it."""
    home = Path(edgeserve.__path__[0])
    for folder in (home, home / "engines"):  # a link, which compile_dir would pass over
        compileall.compile_dir(folder, quiet=1)


def companions(jobs: Iterable[Job]) -> list[str]:
    """Models that every pull of a model of these jobs brings: without its detector a server hears every silence."""
    return [name for job in jobs for name in INFO[job].companions.values()]


def linked(folder: Path, names: Iterable[str]) -> tuple[Path, dict[str, StoredModel]]:
    """The store in this folder, with links to these models added. Models that are missing here are pulled first."""
    store, root = Store(default_root(os.environ)), folder / "models"
    root.mkdir(parents=True, exist_ok=True)
    stored = {name: _stored(store, name) for name in names}
    for one in stored.values():
        link, kept = root / one.name, store.root / one.name
        if kept.is_dir() and not link.exists():
            link.symlink_to(kept, target_is_directory=True)
    return root, stored


@contextlib.contextmanager
def serving_models(models: Mapping[Job, str]) -> Iterator[ServerProcess]:
    """A healthy server of these models by job, over a store of its own."""
    with tempfile.TemporaryDirectory() as folder:
        root, _ = linked(Path(folder), [*models.values(), *companions(models)])
        config = Path(folder) / "models.toml"
        config.write_text("".join(toml(job, {"model": name}) for job, name in models.items()))
        with serving(config, "--log-level", "warning", environ={"EDGESERVE_MODELS_DIR": str(root)}) as server:
            server.wait_healthy()
            yield server


def _stored(store: Store, name: str) -> StoredModel:
    try:
        return store.find(name)
    except ModelMissing:
        return store.pull(name)


def _make_picture(llm: str, mmproj: str) -> bytes:
    """In a process of its own. Also builds the projector when it has a name."""
    from benchmarks.mmproj import build_mmproj, picture

    if mmproj:
        build_mmproj(Path(llm), Path(mmproj))
    return picture("red")
