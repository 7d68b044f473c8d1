"""Judgements of the doctor over made-up machines."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.cases import each
from support.machines import BOX, LLAMA, NO_MLX, ORT

from edgeserve.doctor.findings import Facts, Model, choose, compiler_command, examine, judge
from edgeserve.doctor.machine import Machine, Runtime
from edgeserve.jobs import ENCODERS

MB = 1 << 20
GB = 1 << 30

CHAT = Model("small", "llm", 100 * MB, pulled=True, configured=True)
SPEECH = Model("voice", "tts", 8 * MB, pulled=True, configured=True)


def box(**changes: Any) -> Machine:
    return dataclasses.replace(BOX, **changes)


def test_nothing_is_missing() -> None:
    assert examine(Facts(BOX, (CHAT, SPEECH))) == []


@each(
    ("size", "pulled", "machine", "word"),
    [
        (3 * GB, True, BOX, "yes"),
        (4 * GB, True, BOX, "not now"),
        (5 * GB, True, BOX, "no"),
        (3 * GB, True, box(memory_budget=3 * GB), "no"),
        (3 * GB, False, box(disk_free=3 * GB), "no"),
        (3 * GB, True, box(disk_free=3 * GB), "yes"),
        (0, False, BOX, "unknown"),
    ],
)
def test_what_fits(size: int, pulled: bool, machine: Machine, word: str) -> None:
    fit = judge(Model("m", "llm", size, pulled=pulled), machine)
    assert fit.word == word
    assert bool(fit.reason) == (word != "yes")


def test_a_refusal_has_numbers() -> None:
    assert (
        judge(Model("m", "llm", 8 * GB), BOX).reason == "needs about 10 GB of memory, models may take 6.0 GB of 8.0 GB"
    )


def test_the_largest_of_each_job_that_fits_and_is_quick_is_chosen() -> None:
    slow = Model("slow", "llm", 3 * GB, tokens=4.9)
    quick = Model("quick", "llm", 2 * GB, tokens=5.0)
    too_large, damaged = Model("huge", "llm", 9 * GB), Model("broken", "tts", 9 * MB, trouble="damaged")
    models = (CHAT, slow, quick, too_large, SPEECH, damaged)
    assert choose(Facts(BOX, models)) == [quick, SPEECH]
    assert choose(Facts(BOX)) == []


def test_a_model_that_is_not_pulled_is_an_error_with_its_command() -> None:
    (finding,) = examine(Facts(BOX, (dataclasses.replace(CHAT, pulled=False),)))
    assert (finding.level, finding.fix) == ("error", "edgeserve pull small")


def test_a_damaged_model_is_pulled_anew() -> None:
    (finding,) = examine(Facts(BOX, (dataclasses.replace(CHAT, trouble="model.gguf is damaged"),)))
    assert (finding.what, finding.fix) == ("model.gguf is damaged", "edgeserve remove small && edgeserve pull small")


def test_a_missing_companion_is_a_hint() -> None:
    (finding,) = examine(Facts(BOX, (dataclasses.replace(SPEECH, lacks=("silero-vad",)),)))
    assert (finding.level, finding.fix) == ("hint", "edgeserve pull silero-vad")


def test_a_model_that_never_fits_is_not_to_be_pulled() -> None:
    (finding,) = examine(Facts(BOX, (Model("huge", "llm", 70 * GB, configured=True),)))
    assert finding.level == "error"
    assert "91 GB" in finding.what
    assert "pull" not in finding.fix


def test_a_missing_runtime_is_missed_only_by_its_engines() -> None:
    gone = box(runtimes=(Runtime("llama-cpp-python", None, "not installed"), ORT, NO_MLX))
    assert examine(Facts(gone, (SPEECH,))) == []
    (finding,) = examine(Facts(gone, (CHAT,)))
    assert (finding.level, finding.fix) == ("error", "python -m pip install llama-cpp-python")


@pytest.mark.parametrize(("engine", "missed"), [("", ["llama-cpp-python"]), (ENCODERS["rerank"], [])])
def test_a_model_needs_the_runtime_of_its_own_engine(engine: str, missed: list[str]) -> None:
    gone = box(runtimes=(Runtime("llama-cpp-python", None, "not installed"), ORT, NO_MLX))
    ranker = Model("ranker", "rerank", 8 * MB, pulled=True, configured=True, engine=engine)
    found = [one.what.partition(":")[0] for one in examine(Facts(gone, (ranker,)))]
    assert found == missed


def test_a_broken_runtime_is_reinstalled() -> None:
    broken = box(runtimes=(LLAMA, Runtime("onnxruntime", None, "crashed at import (signal 4)"), NO_MLX))
    (finding,) = examine(Facts(broken, (SPEECH,)))
    assert "signal 4" in finding.what
    assert "--force-reinstall" in finding.fix


def test_the_compiler_comes_before_what_is_built_with_it() -> None:
    bare = box(
        runtimes=(Runtime("llama-cpp-python", None, "not installed"), ORT, NO_MLX), c_compiler=None, cxx_compiler=None
    )
    compiler, runtime = examine(Facts(bare, (CHAT,)))
    assert compiler.what.startswith("no C and no C++ compiler")
    assert compiler.fix == "sudo apt-get install build-essential"
    assert "pip install llama-cpp-python" in runtime.fix


def test_a_compiler_is_not_missed_once_the_runtime_is_built() -> None:
    assert examine(Facts(box(c_compiler=None, cxx_compiler=None), (CHAT,))) == []


@each(
    ("system", "manager", "command"),
    [
        ("Debian GNU/Linux 12", "apt-get", "sudo apt-get install build-essential"),
        ("Fedora Linux 41", "dnf", "sudo dnf install gcc gcc-c++ make"),
        ("Alpine Linux 3.20", "apk", "sudo apk add build-base"),
        ("macOS 15.1", "brew", "xcode-select --install"),
        ("macOS 15.1", None, "xcode-select --install"),
        ("Plan 9", None, "install gcc, g++ and make with your package manager"),
    ],
)
def test_the_command_is_the_systems_own(system: str, manager: str | None, command: str) -> None:
    assert compiler_command(box(system=system, package_manager=manager)) == command


def test_an_unused_accelerator_is_a_hint_after_the_errors() -> None:
    machine = box(accelerators=("NVIDIA Orin",))
    error, hint = examine(Facts(machine, (dataclasses.replace(CHAT, pulled=False),)))
    assert (error.level, hint.level) == ("error", "hint")
    assert "-DGGML_CUDA=on" in hint.fix
    used = dataclasses.replace(machine, runtimes=(dataclasses.replace(LLAMA, detail="GPU offload"), ORT, NO_MLX))
    assert examine(Facts(used, (CHAT,))) == []


def test_wrong_settings_are_an_error() -> None:
    (finding,) = examine(Facts(BOX, (), "models.toml", "models.toml, line 3: [llm] names no model"))
    assert (finding.level, finding.what) == ("error", "models.toml, line 3: [llm] names no model")


def test_settings_without_an_engine_are_a_hint() -> None:
    (finding,) = examine(Facts(BOX, (), "models.toml"))
    assert finding.level == "hint"


METAL = dataclasses.replace(LLAMA, detail="GPU offload")
SERVER = box(system="macOS 26.5", dedicated=True, wired_collector=True, runtimes=(METAL, ORT, NO_MLX))


def test_the_wired_collector_matters_on_a_dedicated_mac() -> None:
    (finding,) = examine(Facts(SERVER, (CHAT,)))
    assert (finding.level, finding.fix.split(" (")[0]) == ("hint", "sudo sysctl iogpu.disable_wired_collector=1")


def test_it_matters_to_mlx_as_well() -> None:
    mlx = dataclasses.replace(SERVER, runtimes=(LLAMA, ORT, Runtime("mlx", "0.32.4", "Metal")))
    assert len(examine(Facts(mlx, (CHAT,)))) == 1


@each(
    "changes",
    [
        {"dedicated": False},
        {"wired_collector": False},
        {"wired_collector": None},
        {"runtimes": (LLAMA, ORT, NO_MLX)},
        {"runtimes": (LLAMA, ORT, Runtime("mlx", "0.32.4", "CPU only"))},
    ],
)
def test_elsewhere_the_wired_collector_does_not_matter(changes: dict[str, Any]) -> None:
    assert examine(Facts(dataclasses.replace(SERVER, **changes), (CHAT,))) == []
