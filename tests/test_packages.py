"""The sdist and the wheel: one top-level package, and a command that serves where only they are installed."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import subprocess
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from support.sources import ROOT

import edgeserve

pytestmark = pytest.mark.slow
DATA = {".typed", ".toml", ".html", ".css", ".js", ".svg", ".txt"}
BACKEND = "import setuptools.build_meta as backend, sys; print(backend.build_sdist(sys.argv[1]))"


def run(*command: str | Path, cwd: Path, **environ: str) -> str:
    """The command's stdout. Its failure shows both outputs."""
    clean = {"PATH": f"{Path(command[0]).parent}:/usr/bin:/bin", "HOME": str(cwd), **pip_settings(), **environ}
    ended = subprocess.run([*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True, timeout=250)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def pip_settings() -> Mapping[str, str]:
    """The settings that let pip reach an index on this machine, of the user and of the environment."""
    home = Path.home() / ".config" / "pip" / "pip.conf"
    own = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))}
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return ({"PIP_CONFIG_FILE": str(home)} if home.is_file() else {}) | own | proxies


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but pip and setuptools, and a copy of the sources without their history."""
    place = tmp_path_factory.mktemp("packages")
    venv.create(place / "venv", with_pip=True)
    run(place / "venv/bin/python", "-m", "pip", "install", "--quiet", "setuptools>=77", "wheel", cwd=place)
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("edgeserve", "engines"):
        shutil.copytree(ROOT / name, place / "sources" / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place / "sources")
    return place


@pytest.fixture(scope="module")
def sdist(place: Path) -> Path:
    told = run(place / "venv/bin/python", "-c", BACKEND, place / "dist", cwd=place / "sources")
    return place / "dist" / told.split()[-1]


@pytest.fixture(scope="module")
def wheel(place: Path, sdist: Path) -> Path:
    """A wheel made of the sdist: so the sdist lacks nothing."""
    pip = (place / "venv/bin/python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "-w", place / "wheels", sdist, cwd=place)
    (made,) = (place / "wheels").iterdir()
    return made


@pytest.fixture(scope="module")
def installed(place: Path, wheel: Path) -> Path:
    """The command where the wheel alone is installed, beside the compiled packages of this environment."""
    run(place / "venv/bin/python", "-m", "pip", "install", "--quiet", "--no-deps", wheel, cwd=place)
    (there,) = (place / "venv/lib").glob("python*/site-packages")
    (there / "of_the_tests.pth").write_text(sysconfig.get_path("purelib"))
    return place / "venv/bin/edgeserve"


def test_the_wheel_has_one_top_level_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    assert {name.partition("/")[0] for name in names} == {"edgeserve", f"edgeserve-{edgeserve.__version__}.dist-info"}
    here = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("edgeserve/**/*.py")}
    engines = {f"edgeserve/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("engines/**/*.py")}
    assert {name for name in names if name.endswith(".py")} == here | engines
    data = {path.relative_to(ROOT).as_posix() for path in (ROOT / "edgeserve").rglob("*") if path.suffix in DATA}
    assert {"edgeserve/py.typed", "edgeserve/models/catalog.toml"} < data <= set(names)


def test_the_sdist_holds_plain_files(sdist: Path) -> None:
    with tarfile.open(sdist) as packed:
        assert [one.name for one in packed if one.issym() or one.islnk()] == []


def test_the_command_shows_its_version_and_where_it_is(installed: Path, tmp_path: Path) -> None:
    assert run(installed, "--version", cwd=tmp_path) == f"edgeserve {edgeserve.__version__}\n"
    code = "import edgeserve.engines.llama.chat as chat; print(chat.__file__)"
    where = run(installed.parent / "python", "-c", code, cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parents[1])


def test_doctor_runs_and_init_writes_settings(installed: Path, tmp_path: Path) -> None:
    run(installed, "init", "--yes", "--starter", cwd=tmp_path)
    (tmp_path / "models.toml").rename(tmp_path / "aside.toml")
    (tmp_path / "models.toml").write_text("")
    assert "This machine" in run(installed, "doctor", cwd=tmp_path)


@pytest.fixture(scope="module")
def resolved(place: Path, wheel: Path) -> Path:
    """The command where pip has installed the wheel and all that it names, from the index. Compiles nothing."""
    own = ROOT / ".venv" / "cache"  # tools/install.sh builds llama.cpp in there on some processors
    cache = Path(os.environ.get("PIP_CACHE_DIR") or (own if own.is_dir() else Path.home() / ".cache" / "pip"))
    built = importlib.metadata.version("llama-cpp-python")  # a newer one would have to be compiled
    if not any(cache.rglob(f"llama_cpp_python-{built}-*.whl")):
        pytest.skip(f"{cache} has no wheel of llama-cpp-python {built}: it would be compiled for minutes")
    venv.create(place / "whole", with_pip=True)
    packages = (wheel, f"llama-cpp-python=={built}")
    pip = (place / "whole/bin/python", "-m", "pip", "install", "--quiet")
    run(*pip, *packages, cwd=place, PIP_CACHE_DIR=str(cache))
    return place / "whole/bin/edgeserve"


def test_pip_resolves_all_that_the_wheel_names(resolved: Path, tmp_path: Path) -> None:
    run(resolved.parent / "python", "-m", "pip", "check", cwd=tmp_path)
    with serving(resolved, tmp_path) as address:
        assert httpx.get(f"{address}/v1/health", timeout=60).status_code == 200
    assert "llama-cpp-python" in run(resolved, "doctor", cwd=tmp_path)


@contextlib.contextmanager
def serving(program: Path, folder: Path) -> Iterator[str]:
    """The address of a server without models."""
    (folder / "models.toml").write_text("")
    command = [str(program), "serve", "--port", "0"]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    with subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            yield next(word for word in server.stdout.readline().split() if word.startswith("http://"))
        finally:
            server.terminate()
            server.wait(60)


def test_it_serves(installed: Path, tmp_path: Path) -> None:
    with serving(installed, tmp_path) as address:
        assert httpx.get(f"{address}/v1/health", timeout=60).status_code == 200
