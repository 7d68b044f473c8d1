"""``edgeserve doctor``: collect the facts, judge them, show both."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeserve.commands import Call
from edgeserve.config import Config
from edgeserve.doctor import findings as judge
from edgeserve.doctor import machine
from edgeserve.doctor.findings import Facts, Finding, Model
from edgeserve.doctor.machine import Machine
from edgeserve.errors import ConfigError, EdgeserveError, ModelMissing, ModelUnknown, NotFound, StoreError
from edgeserve.fit import calibration, speed, tuning
from edgeserve.jobs import CHAT, Job, table_of
from edgeserve.models import catalog
from edgeserve.models.entry import UNVERIFIED, Entry
from edgeserve.models.folder import expanded
from edgeserve.models.store import Store
from edgeserve.models.wanted import is_path
from edgeserve.named import make_engine
from edgeserve.specification import missing_companions, spec
from edgeserve.terminal import human_size, table


def doctor(call: Call) -> int:
    """Print facts and findings; returns 1 when a configured engine cannot be served."""
    facts = collect(call)
    findings = judge.examine(facts)
    print(json.dumps(as_json(facts, findings), indent=2) if call.args.json else "\n".join(render(facts, findings)))
    return 1 if any(finding.level == "error" for finding in findings) else 0


def collect(call: Call) -> Facts:
    """Collect the facts. Wrong settings are one finding among others."""
    error = None
    try:
        config = call.config()
    except ConfigError as wrong:
        config, error = Config(source=call.args.config or "models.toml"), str(wrong)
    store = call.store(config)
    readings = machine.read(store.root, config.memory, call.environ)
    kept = calibration.read(store.root.parent / calibration.FILE)
    rates = kept.rates if kept else speed.Rates(readings.bandwidth, math.inf)
    found = (_timed(model, rates, measured=kept is not None) for model in models(config, store))
    return Facts(readings, tuple(found), config.source, error)


def _timed(model: Model, rates: speed.Rates, *, measured: bool) -> Model:
    """The model with its tokens a second: expected, or those that memory can feed, since each reads all weights."""
    if not rates.bandwidth or model.job not in CHAT or not catalog.knows(model.name):
        return model
    return dataclasses.replace(model, tokens=speed.answers(catalog.find(model.name), rates), measured=measured)


def models(config: Config, store: Store) -> Iterator[Model]:
    """The configured models, then the rest of the catalogue."""
    named = set()
    for name, settings in config.models.items():
        known = settings.model if Path(settings.model).exists() else _in_catalogue(settings.model)
        model = _model(settings.job, known, store)
        named.add(model.name)
        if settings.mmproj and not _there(settings.mmproj):
            model = dataclasses.replace(
                model, no_projector=f"[{table_of(name)}] mmproj = {settings.mmproj!r}: no such file"
            )
        refused = _refused(config, store, name, model)
        usable = model.pulled and not model.trouble
        lacks = missing_companions(settings, store.find(settings.model)) if usable else ()
        yield dataclasses.replace(model, configured=True, id=name, refused=refused, lacks=lacks)
    for entry in catalog.MODELS.values():
        if entry.name not in named and entry.job != "vad":  # pulled with every transcription model
            yield _model(entry.job, entry, store)


def _refused(config: Config, store: Store, name: str, model: Model) -> str:
    """The reason why the engine of a configured model refuses it, as at the start of a server; else nothing."""
    if not model.pulled or model.trouble or model.no_projector:
        return ""
    settings = config.models[name]
    try:
        make_engine(spec(config, store, name, settings, store.find(settings.model)))
    except EdgeserveError as error:
        return error.message
    return ""


def _there(path: str) -> bool:
    try:
        return expanded(path, "mmproj").is_file()
    except (ConfigError, OSError):  # an unknown user's home, or too long for a path
        return False


def _in_catalogue(name: str) -> Entry | str:
    try:
        return catalog.find(name)
    except NotFound:
        return name


def _model(job: Job, known: Entry | str, store: Store) -> Model:
    name = known if isinstance(known, str) else known.name
    size, engine = (0, "") if isinstance(known, str) else (known.size_bytes, known.engine)
    try:
        stored = store.find(name)
    except ModelMissing as error:
        if isinstance(error, ModelUnknown) or is_path(name):
            return Model(name, job, size, trouble=error.message)
        return Model(name, job, size, verified=isinstance(known, Entry) and known.verified, engine=engine)
    except StoreError as error:
        return Model(name, job, size, pulled=True, trouble=error.message, engine=engine)
    engine = stored.engine if stored.job == job else ""
    tuned = tuning.summary(store.root, stored)
    return Model(stored.name, job, stored.size_bytes, pulled=True, engine=engine, tuned=tuned)


def as_json(facts: Facts, findings: list[Finding]) -> dict[str, Any]:
    """The facts by name (sizes in bytes), a fit for each model, and the findings."""
    models = [
        dataclasses.asdict(model) | {"fit": dataclasses.asdict(judge.judge(model, facts.machine))}
        for model in facts.models
    ]
    return {
        "machine": dataclasses.asdict(facts.machine),
        "settings": facts.settings,
        "models": models,
        "findings": [dataclasses.asdict(finding) for finding in findings],
    }


def render(facts: Facts, findings: list[Finding]) -> Iterator[str]:
    yield "This machine"
    yield from (f"  {name:12} {value}" for name, value in _machine(facts.machine))
    yield "Runtimes"
    for runtime in facts.machine.runtimes:
        yield f"  {runtime.name:17} {runtime.version or '-':10} {runtime.detail}"
    yield f"Configured ({facts.settings})"
    width = max((len(model.id) for model in facts.configured), default=0)
    for model in facts.configured:
        job = "" if model.id == model.job else f" ({model.job})"
        tuned = f", tuned: {model.tuned}" if model.tuned else ""
        yield f"  {model.id:{width}}  {model.name}{job}, {model.state}{_speed(model)}{tuned}"
    yield "Catalogue"
    rows = []
    for model in facts.models:
        if not model.configured:
            fit = judge.judge(model, facts.machine)
            checked = "" if model.verified else "unverified"
            fits = f"{fit.word} {fit.reason}".strip()
            rows.append((model.name, model.job, human_size(model.size_bytes), checked, fits))
    yield from (f"  {line}" for line in table(("name", "job", "size", "checked", "fits"), rows).splitlines())
    yield f"  {UNVERIFIED}"
    yield "To choose: the largest of each job that fits, and answers as fast as people read"
    chosen = judge.choose(facts)
    width = max((len(model.job) for model in chosen), default=0)
    yield from (f"  {model.job:{width}}  {model.name}{_speed(model)}" for model in chosen)
    yield "  `edgeserve recommend` measures more, and says which run together; `edgeserve init` writes them down"
    yield ""
    for finding in findings:
        yield f"[{finding.level.upper()}] {finding.what}"
        yield f"        {finding.fix}"
    if not findings:
        yield "Nothing is missing."


def _speed(model: Model) -> str:
    """The speed in words, or its bound: no machine writes faster than its memory feeds it."""
    if not model.tokens:
        return ""
    return f", {'about' if model.measured else 'at most'} {model.tokens:.{1 if model.tokens < 10 else 0}f} tokens/s"


def _machine(one: Machine) -> Iterator[tuple[str, str]]:
    limit = f", limited to {human_size(one.memory_limit)} by a control group" if one.memory_limit else ""
    yield "system", one.system
    yield "processor", f"{one.processor}, {one.architecture}, {one.cores} cores"
    if one.features:
        yield "features", " ".join(one.features)
    yield "memory", f"{human_size(one.memory_total)}, {human_size(one.memory_available)} available{limit}"
    candidates = sorted(one.memory_candidates.items(), key=lambda item: item[1])
    names = ", ".join(f"{name.replace('_', ' ')} {human_size(size)}" for name, size in candidates)
    yield "budget", f"models may take {human_size(one.memory_budget)}, the smallest of: {names}"
    if one.bandwidth:
        yield "reads", f"{human_size(one.bandwidth)} of memory a second, which bounds the tokens that a model writes"
    yield "stalls", "not reported by this kernel" if one.memory_stall is None else f"{one.memory_stall:.0f}% of 10 s"
    yield "disk", f"{human_size(one.disk_free)} free at {one.disk_path}"
    yield "confinement", "; ".join(f"{name} {words}" for name, words in one.confinement.items())
    yield "accelerator", "; ".join(one.accelerators) or "none found"
    without = "llama.cpp has no RPC, which `EDGESERVE_RPC=1 make serve` installs"
    yield "splits", "models can be split over machines" if one.splits else without
    yield "python", one.python
    cmake = one.cmake or "no cmake (pip brings one)"
    yield "compilers", f"{one.c_compiler or 'no C'}, {one.cxx_compiler or 'no C++'}, {cmake}"
