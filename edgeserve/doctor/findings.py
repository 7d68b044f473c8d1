"""Findings: models that fit on this machine, missing parts, and the commands that mend them. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.doctor.machine import Machine
from edgeserve.jobs import INFO, Job
from edgeserve.terminal import human_size

OVERHEAD = 1.3
"""Memory of a model for each byte of its files, when nothing better is known (DESIGN: admission)."""

READING = 5.0
"""Tokens a second that people read: about four words."""

NOT_INSTALLED = "not installed"

COMPILERS: Mapping[str, str] = {
    "apt-get": "sudo apt-get install build-essential",
    "dnf": "sudo dnf install gcc gcc-c++ make",
    "pacman": "sudo pacman -S base-devel",
    "zypper": "sudo zypper install gcc gcc-c++ make",
    "apk": "sudo apk add build-base",
    "brew": "xcode-select --install",
}


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the catalogue or the settings. ``size_bytes`` is 0 when it is unknown before the pull.

    ``trouble``: the reason why a pulled model cannot be used, or why a name means none. ``no_projector``: an error
    about its projector.
    ``refused``: the reason why its engine refuses a pulled model, such as a reranker without a ranking head.
    ``verified``: the model was pulled and used where edgeserve is built. ``engine``: import string of its engine;
    empty: the engine of its job. ``id`` names its table in the settings; empty: it is not configured. ``tuned``: its
    measured settings; empty for a model without forms. ``tokens``: a second that it writes; 0 where unknown.
    ``measured``: they follow from all figures of this machine, and not from the bandwidth of its memory alone.
    ``lacks``: models that should be pulled beside it, such as the detector of speech.
    """

    name: str
    job: Job
    size_bytes: int
    pulled: bool = False
    configured: bool = False
    trouble: str = ""
    no_projector: str = ""
    refused: str = ""
    verified: bool = True
    engine: str = ""
    id: str = ""
    tuned: str = ""
    tokens: float = 0.0
    measured: bool = False
    lacks: Sequence[str] = ()

    @property
    def state(self) -> str:
        return "not pulled" if not self.pulled else "damaged" if self.trouble else "pulled"


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts to judge. ``settings`` names their file; ``settings_error`` is the mistake in them."""

    machine: Machine
    models: Sequence[Model] = ()
    settings: str = "defaults"
    settings_error: str | None = None

    @property
    def configured(self) -> Sequence[Model]:
        return [model for model in self.models if model.configured]


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a model fits; ``reason`` is empty for "yes"."""

    word: Literal["yes", "not now", "no", "unknown"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """``error``: a configured engine cannot be served. ``hint``: it can, but not as well as it could."""

    level: Literal["error", "hint"]
    what: str
    fix: str


def judge(model: Model, machine: Machine) -> Fit:
    """Judge whether the model fits into the machine's memory and, before its pull, onto the disk."""
    if not model.size_bytes:
        return Fit("unknown", "its size is not known before it is pulled")
    needed = int(model.size_bytes * OVERHEAD)
    if needed > machine.memory_budget:
        budget, total = human_size(machine.memory_budget), human_size(machine.memory_total)
        return Fit("no", f"needs about {human_size(needed)} of memory, models may take {budget} of {total}")
    if not model.pulled and needed > machine.disk_free:
        return Fit("no", f"needs about {human_size(needed)} of disk, {human_size(machine.disk_free)} are free")
    if needed > machine.memory_available:
        available = human_size(machine.memory_available)
        return Fit("not now", f"needs about {human_size(needed)} of memory, {available} are available")
    return Fit("yes")


def choose(facts: Facts) -> list[Model]:
    """The largest model of each job that fits, and that people need not wait for; each as if it were alone."""
    found: dict[Job, Model] = {}
    for model in facts.models:
        quick = not model.tokens or model.tokens >= READING
        larger = model.job not in found or model.size_bytes > found[model.job].size_bytes
        if larger and quick and not model.trouble and judge(model, facts.machine).word == "yes":
            found[model.job] = model
    return [found[job] for job in INFO if job in found]


def examine(facts: Facts) -> list[Finding]:
    """All findings, errors first."""
    findings = [*_settings(facts), *_runtimes(facts), *_models(facts)]
    findings += [*_acceleration(facts.machine), *_collector(facts.machine)]
    return sorted(findings, key=lambda finding: finding.level != "error")


def _settings(facts: Facts) -> Iterator[Finding]:
    if facts.settings_error:
        yield Finding("error", facts.settings_error, f"correct {facts.settings}, then: edgeserve doctor")
    elif not facts.configured:
        yield Finding("hint", f"{facts.settings} lists no engine", 'add, for example, [llm] with model = "…"')


def _runtimes(facts: Facts) -> Iterator[Finding]:
    needed = {INFO[model.job].runtime(model.engine) for model in facts.configured}
    for runtime in facts.machine.runtimes:
        if runtime.version is not None or runtime.name not in needed:
            continue
        if runtime.name == "llama-cpp-python":
            yield from _compilers(facts.machine)
        again = "" if runtime.detail == NOT_INSTALLED else "--force-reinstall --no-cache-dir "
        yield Finding("error", f"{runtime.name}: {runtime.detail}", f"python -m pip install {again}{runtime.name}")


def _compilers(machine: Machine) -> Iterator[Finding]:
    kinds = [("C", machine.c_compiler), ("C++", machine.cxx_compiler)]
    lacking = " and no ".join(kind for kind, path in kinds if path is None)
    if lacking:
        what = f"no {lacking} compiler, which llama-cpp-python is built with"
        yield Finding("error", what, compiler_command(machine))


def compiler_command(machine: Machine) -> str:
    if machine.system.startswith("macOS"):
        return COMPILERS["brew"]
    return COMPILERS.get(machine.package_manager or "", "install gcc, g++ and make with your package manager")


def _models(facts: Facts) -> Iterator[Finding]:
    for model in facts.configured:
        name, fit = f"{model.name} ({model.job})", judge(model, facts.machine)
        if fit.word == "no":
            yield Finding("error", f"{name} does not fit: {fit.reason}", "choose a smaller one: edgeserve recommend")
            continue
        if model.no_projector:
            yield Finding("error", model.no_projector, "name the projector's file, or a vision model of the catalogue")
        if model.refused:
            yield Finding("error", f"{name}: {model.refused}", "choose another model, then: edgeserve doctor")
        if model.trouble:
            again = f"edgeserve remove {model.name} && edgeserve pull {model.name}"
            fix = again if model.pulled else f"name another model in {facts.settings}, then: edgeserve doctor"
            yield Finding("error", model.trouble, fix)
        elif not model.pulled:
            yield Finding("error", f"{name} is configured but not pulled", f"edgeserve pull {model.name}")
        for lacked in model.lacks:
            yield Finding("hint", f"{name} runs without {lacked}, slower and less exact", f"edgeserve pull {lacked}")
        if fit.word == "not now":
            yield Finding("hint", f"{name} does not fit just now: {fit.reason}", "close other programs")


def _acceleration(machine: Machine) -> Iterator[Finding]:
    llama = next((one for one in machine.runtimes if one.name == "llama-cpp-python" and one.version), None)
    if not machine.accelerators or llama is None or llama.detail != "CPU only":
        return
    backend = "METAL" if machine.system.startswith("macOS") else "CUDA"
    yield Finding(
        "hint",
        f"{machine.accelerators[0]} is not used: llama-cpp-python was built for the CPU only",
        f'CMAKE_ARGS="-DGGML_{backend}=on" python -m pip install --force-reinstall --no-cache-dir --no-deps '
        "llama-cpp-python",
    )


def _collector(machine: Machine) -> Iterator[Finding]:
    """A hint for a Mac with less than the usual reserve: macOS may take the GPU's memory back."""
    metal = any(one.version and one.detail in ("GPU offload", "Metal") for one in machine.runtimes)
    if machine.dedicated and machine.wired_collector and metal:
        yield Finding(
            "hint",
            "so little is left to macOS (os_reserve_gb) that it may take the GPU's memory back from under a model",
            "sudo sysctl iogpu.disable_wired_collector=1 (until the next start of the machine; docs/apple.md)",
        )
