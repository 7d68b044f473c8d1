"""The floors of docs/architecture.md: the direction of every import, nothing heavy imported early, nothing too long."""

from __future__ import annotations

import subprocess
import sys

from support.sources import ROOT, modules

RUNTIMES = {"llama_cpp", "onnxruntime", "onnx_asr", "mlx", "mlx_whisper", "hibari"}
HTTP = {"starlette", "uvicorn", "httpx", "openai", "websockets"}
HEAVY = RUNTIMES | {"av", "numpy", "onnx", "huggingface_hub", "jinja2"}

SERVER = (
    "edgeserve.dataclass",
    "edgeserve.errors edgeserve.sound edgeserve.slots edgeserve.strict_json edgeserve.units edgeserve.device "
    "edgeserve.duration edgeserve.setting_values edgeserve.clients edgeserve.ending",
    "edgeserve.chat_parts edgeserve.lists edgeserve.speech edgeserve.credentials edgeserve.splits",
    "edgeserve.jobs edgeserve.messages edgeserve.settings edgeserve.shares",
    "edgeserve.engine",
    "edgeserve.engine_abilities",
    "edgeserve.system edgeserve.logs edgeserve.connections edgeserve.terminal",
    "edgeserve.named edgeserve.processes edgeserve.model_settings edgeserve.talk edgeserve.announcement "
    "edgeserve.keys edgeserve.tls edgeserve.activation edgeserve.figures",
    "edgeserve.media",
    "edgeserve.memory edgeserve.audio edgeserve.models.sources edgeserve.models.convert",
    "edgeserve.models edgeserve.residency edgeserve.config edgeserve.doctor",
    "edgeserve.hosts",
    "edgeserve.live edgeserve.exposure edgeserve.missing edgeserve.conversations edgeserve.fit edgeserve.own_files "
    "edgeserve.service edgeserve.activity",
    "edgeserve.specification edgeserve.manage edgeserve.talk edgeserve.attendants",
    "edgeserve.api edgeserve.assembly edgeserve.doorway",
    "edgeserve.protocols edgeserve.listening",
    "edgeserve.cluster",
    "edgeserve.parts",
    "edgeserve.app",
    "edgeserve.wyoming",
    "edgeserve.ports",
    "edgeserve.server",
    "edgeserve.commands",
    "edgeserve.cli",
    "edgeserve.__main__",
)
"""The rooms of the server, a floor a line, the lowest first. A room imports from floors below and from itself."""

ENGINES = (
    "edgeserve.engines.thinking edgeserve.engines.shortening edgeserve.engines.model_files "
    "edgeserve.engines.whole_texts edgeserve.engines.grammar",
    "edgeserve.engines.onnx",
    "edgeserve.engines",
)
"""The rooms of the engines. Rooms of the last line (llama, encoder, asr, tts, fake) do not know each other."""

BELOW_ENGINES = SERVER[:7]
"""Floors of the server that engines may know: the contract and the system."""

WITHOUT_HTTP = ("edgeserve.engines", "edgeserve.memory", "edgeserve.system", "edgeserve.residency", "edgeserve.hosts")

FILE_LINES, FUNCTION_LINES = 300, 40

ANYWHERE = {"edgeserve", "edgeserve.__version__"}


ALL = modules()
"""Read while tests are collected: CPython 3.11 fails to parse while a thread that a test left behind parses."""


def floors() -> dict[str, int]:
    """The number of its floor by room; engines stand beside the server, from 100 on."""
    server = {room: number for number, line in enumerate(SERVER) for room in line.split()}
    return server | {room: 100 + number for number, line in enumerate(ENGINES) for room in line.split()}


FLOORS = floors()


def room(name: str) -> str:
    """The room that a module or one of its names lives in; empty where no floor has it."""
    while name and name not in FLOORS:
        name = name.rpartition(".")[0]
    return name


def allowed(home: str, module: str, other: str) -> bool:
    """Whether ``module`` of room ``home`` may import the name ``other``."""
    there = room(other)
    if home.startswith("edgeserve.engines"):
        if not there.startswith("edgeserve.engines"):
            return there in " ".join(BELOW_ENGINES).split()
        same_folder = module.split(".")[:3] == other.split(".")[:3]
        return same_folder if there == home else FLOORS[there] < FLOORS[home]
    return there == home or (not there.startswith("edgeserve.engines") and bool(there) and FLOORS[there] < FLOORS[home])


def test_imports_go_down() -> None:
    wrong = [
        f"{one.name} imports {other}"
        for one in ALL
        if one.name not in ANYWHERE
        for other in one.imports
        if other.split(".")[0] in {"edgeserve", "engines"} and other not in ANYWHERE
        if not allowed(room(one.name), one.name, other)
    ]
    unknown = [f"{one.name} stands on no floor" for one in ALL if one.name not in ANYWHERE and not room(one.name)]
    assert wrong + unknown == []


def test_dataclasses_are_lean() -> None:
    """Any other costs half a millisecond of every start. ``memory.plan`` caches a property, and so has no slots."""
    users = {one.name for one in ALL if "dataclasses.dataclass" in one.imports}
    assert users == {"edgeserve.dataclass", "edgeserve.memory.plan"}


def test_runtimes_and_http_stay_in_their_rooms() -> None:
    wrong = []
    for module in ALL:
        name, roots = module.name, {one.split(".")[0] for one in module.imports}
        if not name.startswith("edgeserve.engines"):
            wrong += [f"{name} imports the runtime {one}" for one in roots & RUNTIMES]
        if name.startswith(
            ("edgeserve.engines", "edgeserve.memory", "edgeserve.system", "edgeserve.residency", "edgeserve.hosts")
        ):
            wrong += [f"{name} knows HTTP: {one}" for one in roots & HTTP]
        early = {one.split(".")[0] for one in module.early}
        wrong += [f"{name} imports {one} before it is needed" for one in early & HEAVY]
    assert wrong == []


def test_files_and_functions_keep_their_bounds() -> None:
    files = {one.name: one.lines for one in ALL if one.lines > FILE_LINES}
    functions = {one.name: max(one.functions) for one in ALL if max(one.functions, default=0) > FUNCTION_LINES}
    assert (files, functions) == ({}, {})


def test_building_the_server_imports_nothing_heavy() -> None:
    code = (
        "import sys, edgeserve.app, edgeserve.server, edgeserve.cli\n"
        "import edgeserve.engines.llama.chat, edgeserve.engines.llama.vision, edgeserve.engines.asr.onnx\n"
        "import edgeserve.engines.tts.onnx, edgeserve.engines.asr.mlx\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert shown.stdout.strip() == "[]"
