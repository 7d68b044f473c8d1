"""Model files of a hub with Hugging Face's protocol, through ``huggingface_hub``.

The library reads ``HF_ENDPOINT`` (another hub) and ``HF_TOKEN`` (for gated models). Files go straight into the store's
folder. The library resumes a cut connection, but not a pull that was ended.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeserve.errors import SourceUnavailable
from edgeserve.models.sources.source import CHUNK, HubSource, Report, file_name


def fetch(source: HubSource, into: Path, report: Report, size: int) -> Mapping[str, Path]:
    """Fetch the source's files; returns them by role. Raises SourceUnavailable."""
    from huggingface_hub import constants, hf_hub_download

    constants.DOWNLOAD_CHUNK_SIZE = CHUNK  # reports come with each chunk: of 10 MB, they would be rare on a slow line
    files: dict[str, Path] = {}
    cache = into / "hub"
    for role, member in source.members.items():
        name = file_name(member)
        if into / name in files.values():  # 1_Pooling/config.json beside config.json
            name = f"{role}-{name}"
        with translated(source):
            found = hf_hub_download(
                source.repository,
                member,
                revision=source.revision,
                local_dir=cache,
                tqdm_class=_progress_class(report, size),
            )
        files[role] = into / name
        shutil.move(found, files[role])
    shutil.rmtree(cache, ignore_errors=True)
    return files


SMALL = 1 << 20
"""Bytes of a file that is read into memory at most. A config.json has a few thousand."""


def read(source: HubSource, member: str) -> bytes:
    """A small file of the source's repository. Raises SourceUnavailable, also for a file that is not small."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url

    with tempfile.TemporaryDirectory() as folder, translated(source):
        address = hf_hub_url(source.repository, member, revision=source.revision)
        if (size := get_hf_file_metadata(address).size or 0) > SMALL:
            raise SourceUnavailable(f"{member} of {source} has {size} bytes; such a file has {SMALL} at most")
        found = hf_hub_download(source.repository, member, revision=source.revision, local_dir=folder)
        return Path(found).read_bytes()


def list_files(repository: str, revision: str) -> list[str]:
    """Paths of all files of a repository. Raises SourceUnavailable."""
    from huggingface_hub import HfApi

    with translated(HubSource(repository, {}, revision)):
        return list(HfApi().list_repo_files(repository, revision=revision))


class translated:  # noqa: N801 - reads as a statement
    """Translates the library's errors to SourceUnavailable."""

    def __init__(self, source: HubSource) -> None:
        self._source = source

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or not isinstance(error, Exception):
            return
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return  # an error of the disk, not of the hub
        from huggingface_hub import errors

        # The library changed its HTTP library over time (requests, httpx); this is the base error of any.
        transport = errors.HfHubHTTPError.__bases__[0]
        where = str(self._source)
        if isinstance(error, errors.GatedRepoError):
            text = f"{where} is gated: accept its terms on the hub, then set HF_TOKEN to a token of yours"
        elif isinstance(error, errors.RepositoryNotFoundError):
            text = f"{where} does not exist, or is private and needs HF_TOKEN"
        elif isinstance(error, errors.RevisionNotFoundError):
            text = f"{where} does not exist: no such revision"
        elif isinstance(error, errors.EntryNotFoundError) and not isinstance(error, errors.LocalEntryNotFoundError):
            text = f"{where} has no such file: {error}"
        elif isinstance(error, errors.HfHubHTTPError):
            text = f"{where}: the hub answered with an error: {error}"
        elif isinstance(error, ValueError):  # an invalid name of a repository, or an answer that is no JSON
            text = f"{where} is not what a hub can answer: {error}"
        elif isinstance(error, (transport, OSError)):
            text = f"{where} cannot be reached ({type(error).__name__}: {error}); HF_ENDPOINT names another hub"
        else:
            return
        raise SourceUnavailable(text) from error


def _progress_class(report: Report, size: int) -> Any:
    """A progress bar for the library that calls ``report`` and prints nothing."""
    from tqdm.auto import tqdm

    class Silent(tqdm):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs.pop("name", None)
            super().__init__(*args, **{**kwargs, "disable": True})
            self._done = int(kwargs.get("initial") or 0)

        def update(self, n: float | None = 1) -> bool | None:
            self._done += int(n or 0)
            report(self._done, int(self.total or size) if getattr(self, "total", None) else size)
            return True

    return Silent
