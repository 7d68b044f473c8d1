"""``edgeserve verify``, ``clean`` and ``update``: the files of models are whole, needed, and the latest."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from edgeserve.commands import Call
from edgeserve.commands.models import fetch, report
from edgeserve.commands.question import ask
from edgeserve.config import Config
from edgeserve.errors import ConfigError, EdgeserveError, InUse
from edgeserve.models import catalog
from edgeserve.models.store import Leftover, Progress, Store, StoredModel
from edgeserve.terminal import ProgressBar, human_size, table


def verify(call: Call) -> int:
    """Read every file of the models, and compare its checksum. Returns 1 when a model is damaged.

    A file with another checksum is removed, so that no engine opens it, and ``pull`` fetches the model again.
    """
    store = call.store(call.config())
    names = call.args.names or sorted([*(one.name for one in store.list()), *store.damaged()])
    if not names:
        print("No model is pulled yet; edgeserve pull starter fetches the starter models.")
    failed = [name for name in names if not _verified(store, name)]
    if failed:
        report("ERROR", f"{len(failed)} of {len(names)} models are damaged; edgeserve pull {' '.join(failed)}")
    return 1 if failed else 0


def _verified(store: Store, name: str) -> bool:
    try:
        with ProgressBar(sys.stderr) as bar:

            def show(progress: Progress) -> None:
                bar.update(f"{name}: {progress.stage}", progress.done, progress.total)

            found = store.verify(name, progress=show)
    except EdgeserveError as error:
        report("ERROR", f"{name}: {error.message}")
        return False
    files = "1 file as it was" if len(found.files) == 1 else f"{len(found.files)} files as they were"
    print(f"{found.name}: {files} pulled, {human_size(found.size_bytes)}")
    return True


def clean(call: Call) -> int:
    """Show what may go, ask, and delete it. Without a terminal and without ``--yes`` nothing is deleted."""
    config = call.config()
    store = call.store(config)
    left = [one for one in store.leftovers() if not one.busy]
    unused = list(_unused(config, store)) if call.args.unused else []
    rows = [(one.name, f"broken-off {one.of}", human_size(one.size_bytes)) for one in left]
    rows += [(one.name, "not in the settings", human_size(one.size_bytes)) for one in unused]
    if not rows:
        print("Nothing to delete.")
        return 0
    size = human_size(sum([*(one.size_bytes for one in left), *(one.size_bytes for one in unused)]))
    print(table(("name", "why", "size"), rows))
    if not (call.args.yes or ask(f"Delete these, {size}?")):
        print("Nothing is deleted; edgeserve clean --yes deletes it.")
        return 0
    steps: list[tuple[str, Callable[[], None]]] = [(one.name, _discarding(store, one)) for one in left]
    steps += [(one.name, _removing(store, one)) for one in unused]
    failed = [name for name, step in steps if not _tried(step)]
    print(f"{len(rows) - len(failed)} of {len(rows)} deleted")
    return 1 if failed else 0


def _discarding(store: Store, left: Leftover) -> Callable[[], None]:
    return lambda: store.discard(left)


def _removing(store: Store, unused: StoredModel) -> Callable[[], None]:
    return lambda: store.remove(unused.name)


def _tried(step: Callable[[], None]) -> bool:
    try:
        step()
    except EdgeserveError as error:
        report("ERROR", error.message)
        return False
    return True


def _unused(config: Config, store: Store) -> Iterator[StoredModel]:
    """Pulled models that no table of the settings names, and that accompany none.

    Raises ConfigError where the settings do not say which models are used.
    """
    if config.source == "defaults":
        raise ConfigError("--unused compares with a models.toml, and there is none here: name yours with --config")
    if config.server.serve == "stored":
        raise ConfigError(f'{config.source}: serve = "stored" serves each pulled model, so none is unused')
    used = {companion for named in catalog.COMPANIONS.values() for companion in named.values()}
    for settings in config.models.values():
        files = (*settings.named, settings.mmproj, *(one.path for one in settings.adapters))
        used.update(*(_named(store, one) for one in settings.named), *(_beneath(store, one) for one in files))
    yield from (one for one in store.list() if one.name not in used)


def _named(store: Store, name: str) -> Iterator[str]:
    """The folder of a model, whole or not: where it or a companion is damaged, what is here of it stays."""
    yield name.lower()
    with contextlib.suppress(EdgeserveError):  # no name of a model in the store
        yield store.folder(name)


def _beneath(store: Store, file: str) -> Iterator[str]:
    """The folder of the store in which a file lies that the settings name by its path."""
    with contextlib.suppress(OSError, RuntimeError, ValueError):  # no path, or elsewhere
        yield from Path(file).expanduser().resolve().relative_to(store.root.resolve()).parts[:1]


def update(call: Call) -> int:
    """Pull the models again whose files, source or conversion changed in the catalogue.

    Ask before a model that a running server uses is replaced; without a terminal and without ``--yes`` it stays.
    Returns 1 when a model stays or could not be had, and with ``--check`` when there is one to pull.
    """
    store = call.store(call.config())
    stale = store.stale()
    if names := call.args.names:
        wanted = {store.folder(name) for name in names}
        stale = {name: why for name, why in stale.items() if name in wanted}
    for name, why in stale.items():
        print(f"{name}: {why}")
    if not stale:
        print("Nothing to update: each pulled model is the catalogue's, or came from an address of your own.")
        return 0
    if call.args.check:
        return 1
    failed = [name for name in stale if not _tried(_updating(store, name, yes=call.args.yes))]
    return 1 if failed else 0


def _updating(store: Store, name: str, *, yes: bool) -> Callable[[], None]:
    def step() -> None:
        if users := store.users(name):
            text = f"{name} is in use by the server {' and '.join(users)} (process and host)"
            text += ", which goes on with the old files until it loads the model again"
            if not (yes or ask(f"{text}. Update it?")):
                raise InUse(f"{text}; nothing was replaced: edgeserve update --yes {name}")
        stored = fetch(store, name, anew=True)
        print(f"{stored.name}: updated, {human_size(stored.size_bytes)}, licence {stored.licence}")

    return step
