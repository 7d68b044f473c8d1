"""``edgeserve init``: a models.toml that suits this machine, after two questions at a terminal."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from edgeserve import config
from edgeserve.commands import Call
from edgeserve.commands.question import answer, ask, asks
from edgeserve.commands.recommend import announce, words
from edgeserve.errors import InvalidRequest
from edgeserve.fit.choice import Box
from edgeserve.fit.recommend import Advice, advise, calibrated
from edgeserve.fit.starting import Chosen, settings
from edgeserve.jobs import ALL_JOBS, INFO, JOBS, STARTER, Job
from edgeserve.models import catalog
from edgeserve.system.probe import Probe
from edgeserve.terminal import human_size

KEY_BYTES = 24
"""Random bytes of a key that is made up: 192 bits."""


def init(call: Call) -> int:
    """Write the file and print its path, and the next command. Returns 1 when no model suits.

    Raises InvalidRequest for a file that is there, unless ``--force`` replaces it.
    """
    args, path = call.args, Path(call.args.output)
    if path.exists() and not args.force:
        raise InvalidRequest(f"{path} is there already; --force replaces it, -o FILE writes another")
    jobs = tuple(dict.fromkeys(args.job or ())) or (JOBS if args.yes else wanted_jobs())
    share = args.share or (not (args.yes or args.job) and ask("May other machines in your network use it, with a key?"))
    chosen, about = _starter(jobs) if args.starter else _suited(call, jobs)
    if not chosen:
        print(f"No model for {', '.join(INFO[job].words for job in jobs)} suits this machine: {about}.")
        return 1
    key = secrets.token_urlsafe(KEY_BYTES) if share else ""
    write(path, settings(chosen, about, key=key), secret=bool(key))
    _tell(path, chosen, jobs, key, "there is no starter model" if args.starter else "no model fits beside these")
    return 0


def wanted_jobs() -> Sequence[Job]:
    """The jobs that the person names; without a terminal, and for an empty line, those of every server.

    A name that is no job is asked again.
    """
    while asks():
        known = ", ".join(f"{job} ({INFO[job].words})" for job in ALL_JOBS)
        typed = answer(f"Jobs of this box: {known}\nWhich? [{' '.join(JOBS)}]").replace(",", " ").split()
        if not typed:
            break
        if wrong := [one for one in typed if one not in INFO]:
            print(f"{', '.join(wrong)}: no job", file=sys.stderr)
            continue
        return [job for job in ALL_JOBS if job in typed]
    return JOBS


def _starter(jobs: Collection[Job]) -> tuple[list[Chosen], str]:
    names = {job: name for job, name in STARTER.items() if job in jobs}
    chosen = [Chosen(job, name, human_size(catalog.find(name).size_bytes)) for job, name in names.items()]
    return chosen, "any machine: the starter models"


def _suited(call: Call, jobs: Collection[Job]) -> tuple[list[Chosen], str]:
    """The models that run together here, and the machine in words."""
    known = config.load(call.environ, path=Path(os.devnull))
    store, policy = call.store(known), known.memory
    box = Box(Probe(override_mb=policy.override_memory_mb).read(), policy)
    advice = advise(store, box, calibrated(store, begin=announce), jobs)
    return chosen_of(advice), about_machine(advice)


def chosen_of(advice: Advice) -> list[Chosen]:
    found = []
    for one in advice.together:
        parts = [human_size(one.entry.size_bytes), words(one.speed) if one.speed else ""]
        parts += ["" if one.entry.verified else "unverified"]
        found.append(Chosen(one.job, one.entry.name, ", ".join(filter(None, parts))))
    return found


def about_machine(advice: Advice) -> str:
    return f"{advice.calibration.processor}, where models may take {human_size(advice.box.budget.usable)} of memory"


def write(path: Path, text: str, *, secret: bool) -> None:
    """Write the settings in one step, with a key for their owner's eyes only. Raises ConfigError and OSError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    mode = 0o600 if secret else 0o644
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
        config.load({}, path=partial)  # the server must read what this command writes
        partial.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()


def _tell(path: Path, chosen: Sequence[Chosen], jobs: Collection[Job], key: str, lack: str) -> None:
    print(f"{path}: written")
    for one in chosen:
        print(f"  {one.job:10} {one.name}  {one.words}")
    if left := [INFO[job].words for job in jobs if job not in {one.job for one in chosen}]:
        print(f"  {lack} for: {', '.join(left)}")
    if key:
        print(f"The key of other machines stands in {path}, which only you can read.")
    serve = "edgeserve serve" if path == Path("models.toml") else f"edgeserve serve --config {path}"
    print(f"Next: {serve}    (pulls what is missing)")
