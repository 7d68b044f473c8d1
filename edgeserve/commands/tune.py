"""``edgeserve tune``: measure the fastest form of a model on this machine, and keep it for the server."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from edgeserve.commands import Call
from edgeserve.errors import StoreError
from edgeserve.fit import tuned, tuning
from edgeserve.fit.tuned import Form, Tuned
from edgeserve.terminal import table

HEADS = ("settings", "way up", "prompt", "answer")


def tune(call: Call) -> int:
    """Print the figures of each form, and keep the best. Returns 1 when other programs disturbed the measurement."""
    store = call.store(call.config())
    model = store.find(call.args.name)
    path = tuned.path_of(store.root, model.name)
    check_folder(path)
    print(f"[INFO] measuring {model.name}; close other programs for true figures", file=sys.stderr, flush=True)
    found = tuning.measure(model, shown=lambda form: print(f"[INFO] {line(form)}", file=sys.stderr, flush=True))
    if found is None:
        return 1
    print("\n".join(render(found)))
    if found.others > tuned.BUSY and not call.args.force:
        print(
            f"[WARNING] other programs took {found.others:.1f} cores meanwhile, so nothing is kept; "
            "try again on an idle machine, or with --force",
            file=sys.stderr,
        )
        return 1
    try:
        tuned.keep(path, found)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; the figures are not kept") from error
    print(f"Kept in {path}. A running server uses it from the model's next way up.")
    return 0


def check_folder(path: Path) -> None:
    """Raises StoreError before minutes of work where no file of this path can be written."""
    found = next(one for one in path.parents if one.exists())
    if not (found.is_dir() and os.access(found, os.W_OK)):
        raise StoreError(f"{found} cannot be written, so the figures would not be kept; nothing was measured")


def line(form: Form) -> str:
    """One form in words."""
    return f"{tuned.words(form.settings)}: {', '.join(figures(form))}"


def figures(form: Form) -> tuple[str, str, str]:
    return f"{form.climb:.2f} s", f"{form.prompt:.0f} tokens/s", f"{form.tokens:.1f} tokens/s"


def render(found: Tuned) -> Iterator[str]:
    """The forms as a table, the best of them marked."""
    rows = [
        (f"{'*' if form.settings == found.best else ' '} {tuned.words(form.settings)}", *figures(form))
        for form in found.forms
    ]
    yield table(HEADS, rows)
    yield "* the fastest in a conversation: the way up, 900 tokens read, 300 written"
