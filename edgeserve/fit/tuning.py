"""The fastest form of a model on this machine, measured by a process of its own (``form_trial``)."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from edgeserve.errors import EngineFailure, NotSupported
from edgeserve.fit import tuned
from edgeserve.fit.tuned import Form, Settings, Tuned
from edgeserve.jobs import CHAT, INFO
from edgeserve.models.stored import StoredModel
from edgeserve.processes.interpreter import module_command

TIME_LIMIT = 1800.0
"""Seconds. A model of a billion weights takes some minutes on two cores."""
MODULE = "edgeserve.fit.form_trial"
Lines = AbstractContextManager[Iterator[str]]
Run = Callable[[Sequence[str]], Lines]
"""Runs a command; its lines come as they are printed. Leaving the block kills the command. Raises OSError, and
subprocess.SubprocessError for a command that printed all and failed."""


@contextmanager
def run(command: Sequence[str], held: Callable[[subprocess.Popen[str]], None] | None = None) -> Iterator[Iterator[str]]:
    """``held`` gets the process. Its standard input stays open as long as this process lives."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:  # noqa: S603 - our own module
        if held:
            held(process)
        late = threading.Timer(TIME_LIMIT, process.kill)
        late.start()
        ended = False

        def lines() -> Iterator[str]:
            nonlocal ended
            yield from process.stdout or ()
            ended = True

        try:
            yield lines()
            said = process.stderr.read() if ended and process.stderr else ""
            if ended:
                process.wait()  # its standard input stays open until then
        finally:
            late.cancel()
            process.kill()
    if ended and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=said)


def suits(model: StoredModel) -> bool:
    """Whether the model's engine has forms, and writes answers that can be timed."""
    return any(model.job == job and model.engine == INFO[job].engine for job in CHAT)


def measure(
    model: StoredModel,
    run: Run = run,
    shown: Callable[[Form], object] = lambda form: None,
    wanted: Callable[[], bool] = lambda: True,
) -> Tuned | None:
    """Measure the forms of a model. Blocks for minutes. ``shown`` gets each form as it is measured.

    None when it is not ``wanted`` any more, which is asked after each form. Raises NotSupported for a model without
    forms, and EngineFailure.
    """
    if not suits(model):
        raise NotSupported(f"{model.name} has no settings to measure: only chat and vision models on llama.cpp have")
    forms: list[Form] = []
    best: Settings = {}
    others = 0.0
    try:
        with run([*module_command(MODULE), _given(model)]) as lines:
            for line in lines:
                found = json.loads(line)
                forms.append(tuned.form(found))
                best = forms[-1].settings if found["best"] else best
                others = max(others, float(found["others"]))
                shown(forms[-1])
                if not wanted():
                    return None
    except (subprocess.SubprocessError, OSError, ValueError, KeyError, TypeError) as error:
        said = str(getattr(error, "stderr", None) or "").strip().splitlines()
        details = f"{error}{f' ({said[-1]})' if said else ''}"
        raise EngineFailure(f"the forms of {model.name} could not be measured: {details}") from error
    if not forms:
        raise EngineFailure(f"the forms of {model.name} could not be measured: the process printed none")
    return tuned.record(model.files["model"].stat().st_size, best, tuple(forms), others)


def summary(models: Path, model: StoredModel) -> str:
    """The kept settings of a model and their speed, in a line; empty for a model without forms."""
    if not suits(model):
        return ""
    found = tuned.read(tuned.path_of(models, model.name), model.files["model"])
    best = next((one for one in found.forms if one.settings == found.best), None) if found else None
    if best is None:
        return f"not yet; an idle server measures it, or edgeserve tune {model.name}"
    return f"{tuned.words(best.settings)}: {best.prompt:.0f} tokens/s read, {best.tokens:.0f} written"


def _given(model: StoredModel) -> str:
    """The fields of its specification as a chat model: a projector takes no part in the speed of tokens."""
    files = {"model": str(model.files["model"])}
    return json.dumps({"job": "llm", "name": model.name, "engine": INFO["llm"].engine, "files": files})
