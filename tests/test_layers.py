"""Who knows whom (docs/architecture.md): the direction of every import, and that nothing heavy is imported early."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

RUNTIMES = {"llama_cpp", "onnxruntime", "onnx_asr", "mlx", "mlx_whisper", "hibari"}
HTTP = {"starlette", "uvicorn", "httpx", "openai", "websockets"}
HEAVY = RUNTIMES | {"av", "numpy", "onnx", "huggingface_hub", "jinja2"}

LEAVES = {"edgeserve.errors", "edgeserve.messages", "edgeserve.strict_json"}
CONTRACT = LEAVES | {"edgeserve.engine", "edgeserve.settings"}

ARROWS: dict[str, set[str]] = {
    "edgeserve.errors": set(),
    "edgeserve.sound": set(),
    "edgeserve.strict_json": set(),
    "edgeserve.messages": {"edgeserve.sound"},
    "edgeserve.logs": set(),
    "edgeserve.connections": set(),
    "edgeserve.request_head": set(),
    "edgeserve.bounded": {"edgeserve.connections"},
    "edgeserve.protocol": LEAVES | {"edgeserve.bounded", "edgeserve", "edgeserve.api"},
    "edgeserve.socket_protocol": LEAVES | {"edgeserve.bounded", "edgeserve", "edgeserve.api"},
    "edgeserve.engine": {"edgeserve.messages"},
    "edgeserve.settings": {"edgeserve.errors"},
    "edgeserve.config": CONTRACT | {"edgeserve.memory.policy"},
    "edgeserve.reporting": set(),
    "edgeserve.disk": set(),
    "edgeserve.needs": set(),
    "edgeserve.catalog_entry": CONTRACT | {"edgeserve.sources.source"},
    "edgeserve.catalog": CONTRACT | {"edgeserve.catalog_entry", "edgeserve.sources.source"},
    "edgeserve.sources": CONTRACT | {"edgeserve.sources"},
    "edgeserve.wanted": CONTRACT
    | {"edgeserve.catalog", "edgeserve.catalog_entry", "edgeserve.sources", "edgeserve.convert"},
    "edgeserve.convert": CONTRACT | {"edgeserve.convert"},
    "edgeserve.manifest": CONTRACT
    | {"edgeserve.catalog", "edgeserve.catalog_entry", "edgeserve.sources", "edgeserve.convert"}
    | {"edgeserve.disk", "edgeserve.wanted"},
    "edgeserve.partial": CONTRACT
    | {"edgeserve.disk", "edgeserve.sources", "edgeserve.convert", "edgeserve.wanted", "edgeserve.manifest"},
    "edgeserve.leftovers": set(),
    "edgeserve.stored_model": CONTRACT | {"edgeserve.sources", "edgeserve.wanted"},
    "edgeserve.store": CONTRACT
    | {
        "edgeserve.catalog",
        "edgeserve.disk",
        "edgeserve.needs",
        "edgeserve.sources",
        "edgeserve.wanted",
        "edgeserve.manifest",
    }
    | {"edgeserve.partial", "edgeserve.leftovers", "edgeserve.stored_model"},
    "edgeserve.memory": CONTRACT | {"edgeserve.memory"},
    "edgeserve.audio": LEAVES | {"edgeserve.audio"},
    "edgeserve.work": LEAVES,
    "edgeserve.worker": LEAVES,
    "edgeserve.aside": LEAVES,
    "edgeserve.queue": {"edgeserve.work"},
    "edgeserve.loop": CONTRACT | {"edgeserve.work"},
    "edgeserve.mailbox": LEAVES | {"edgeserve.work"},
    "edgeserve.prefetch": set(),
    "edgeserve.ladder": CONTRACT | {"edgeserve.memory"},
    "edgeserve.gate": CONTRACT
    | {
        "edgeserve.memory",
        "edgeserve.ladder",
        "edgeserve.loop",
        "edgeserve.queue",
        "edgeserve.work",
        "edgeserve.worker",
    },
    "edgeserve.lease": CONTRACT | {"edgeserve.gate", "edgeserve.mailbox", "edgeserve.work"},
    "edgeserve.monitor": CONTRACT | {"edgeserve.memory", "edgeserve.gate"},
    "edgeserve.pool": CONTRACT
    | {"edgeserve.memory", "edgeserve.gate", "edgeserve.lease", "edgeserve.mailbox", "edgeserve.monitor"}
    | {"edgeserve.work", "edgeserve.prefetch", "edgeserve.aside"},
    "edgeserve.live": LEAVES | {"edgeserve.live", "edgeserve.pool", "edgeserve.connections"},
    "edgeserve.api": CONTRACT
    | {"edgeserve", "edgeserve.api", "edgeserve.audio", "edgeserve.pool", "edgeserve.live", "edgeserve.logs"}
    | {"edgeserve.lease", "edgeserve.mailbox", "edgeserve.connections", "edgeserve.aside"},
    "engines": CONTRACT | {"engines"},
}
"""What each room may import of ours. Rooms that stand above all others (app, server, cli, doctor) are not listed."""

ABOVE = {"edgeserve", "edgeserve.app", "edgeserve.server", "edgeserve.cli", "edgeserve.doctor", "edgeserve.terminal"}
ABOVE |= {"edgeserve.__main__", "edgeserve.missing", "edgeserve.streams", "edgeserve.hangup"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted([*ROOT.glob("edgeserve/**/*.py"), *ROOT.glob("engines/**/*.py")]):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the arrows"
            if node.module in {"edgeserve", "engines"}:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            else:
                yield str(node.module)


def at_import(tree: ast.Module) -> ast.Module:
    """The module without the bodies of its functions and without what only type checkers read."""

    class Outline(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None: ...
        def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None: ...
        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if "TYPE_CHECKING" in ast.dump(node.test) else node

    return ast.fix_missing_locations(Outline().visit(tree))


def room(name: str) -> str:
    """The entry of ARROWS or ABOVE that a module lives in."""
    while name and name not in ARROWS and name not in ABOVE:
        name = name.rpartition(".")[0]
    return name


ALL = list(modules())


@pytest.mark.parametrize(("name", "tree"), ALL, ids=[name for name, _ in ALL])
def test_imports_follow_the_arrows(name: str, tree: ast.Module) -> None:
    home = room(name)
    if home in ABOVE:
        return
    ours = {one for one in imports(tree) if one.split(".")[0] in {"edgeserve", "engines"}}
    allowed = ARROWS[home]
    strangers = {one for one in ours if not any(one == ok or one.startswith(f"{ok}.") for ok in allowed)}
    strangers -= {"edgeserve.__version__"}
    assert not strangers, f"{name} may not import {sorted(strangers)}"


@pytest.mark.parametrize(("name", "tree"), ALL, ids=[name for name, _ in ALL])
def test_runtimes_and_http_stay_in_their_rooms(name: str, tree: ast.Module) -> None:
    roots = {one.split(".")[0] for one in imports(tree)}
    if not name.startswith("engines"):
        assert not roots & RUNTIMES, f"{name} imports a runtime"
    if name.startswith(("engines", "edgeserve.memory")):
        assert not roots & HTTP, f"{name} knows HTTP"
    early = {one.split(".")[0] for one in imports(at_import(tree))}
    assert not early & HEAVY, f"{name} imports {sorted(early & HEAVY)} before it is needed"


def test_every_room_is_known() -> None:
    assert all(room(name) for name, _ in ALL)


def test_building_the_server_imports_nothing_heavy() -> None:
    code = (
        "import sys, edgeserve.app, edgeserve.server, edgeserve.cli\n"
        "import engines.llama, engines.llama_vision, engines.asr_onnx, engines.tts_onnx, engines.whisper_mlx\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert told.stdout.strip() == "[]"
