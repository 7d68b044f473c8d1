"""``edgeserve pull``, ``list``, ``show`` and ``remove``: the models on this device."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from edgeserve.commands import Call, through
from edgeserve.commands.remote import named_server
from edgeserve.config import Config
from edgeserve.errors import EdgeserveError, ModelDamaged, ModelMissing
from edgeserve.fit import tuning
from edgeserve.jobs import STARTER
from edgeserve.models import catalog
from edgeserve.models.entry import UNVERIFIED, Entry
from edgeserve.models.needs import command, packages
from edgeserve.models.store import Leftover, Progress, Store, StoredModel
from edgeserve.terminal import ProgressBar, human_size, table


def pull(call: Call) -> int:
    """Pull the named models, or all that models.toml lists. Missing packages and disk are reported before any download.

    A failed model does not stop the others. Returns 1 when a model is not here at the end, or lacks a package to run.
    With ``--url`` or EDGESERVE_URL a server pulls; without, this process does, and a server here sees the models too.
    """
    config = call.config()
    if (server := named_server(call)) is not None:
        return through.pull_each(server, list(wanted(call.args.names, config)))
    store = call.store(config)
    names = list(wanted(call.args.names, config))
    if not names:
        print(f"{config.source} lists no model; edgeserve pull starter fetches the starter models")
    if len(names) == 1:
        store.ready(names[0])
        idle = _lacks(store, names[0])
        _pull(store, names[0])
        return 1 if idle else 0
    return _pull_each(store, names)


def _pull_each(store: Store, names: list[str]) -> int:
    failed: list[str] = []
    here: list[str] = []

    def tried(step: Callable[[str], None]) -> None:
        for name in [name for name in names if name not in failed]:
            try:
                step(name)
            except EdgeserveError as error:
                failed.append(name)
                report("ERROR", error.message)

    tried(store.ready)
    idle = [name for name in names if name not in failed and _lacks(store, name)]
    tried(lambda name: here.append(_pull(store, name).name))
    if failed:
        report(
            "ERROR",
            f"{len(failed)} of {len(names)} models could not be had: {', '.join(failed)}; "
            f"here: {', '.join(here) or 'none'}",
        )
    return 1 if failed or idle else 0


def _pull(store: Store, name: str) -> StoredModel:
    here = _whole(store, name)
    if here is None:
        return _print_pulled(fetch(store, name))
    print(f"{here.name}: already here, {human_size(here.size_bytes)}")
    for companion in store.lacking(name):
        _print_pulled(fetch(store, companion))
    return here


def _print_pulled(stored: StoredModel) -> StoredModel:
    print(f"{stored.name}: pulled, {human_size(stored.size_bytes)}, licence {stored.licence}")
    return stored


def _whole(store: Store, name: str) -> StoredModel | None:
    """The model, if it is here and needs no repair."""
    try:
        return store.find(name)
    except ModelMissing:
        return None
    except ModelDamaged as error:
        report("WARNING", error.message)
        return None


def _lacks(store: Store, name: str) -> bool:
    """Print the packages that the model lacks to run. The pull continues."""
    lacking = store.needed(name)
    if lacking:
        report("WARNING", f"{name} can be pulled, but runs only with {packages(lacking)}: {command(lacking)}")
    return bool(lacking)


def report(level: str, message: str) -> None:
    """Print one line about a model on stderr."""
    print(f"[{level}] {' '.join(message.split())}", file=sys.stderr)


def wanted(names: list[str], config: Config) -> Iterator[str]:
    """Each model once, in order: names as typed, with ``starter`` replaced, else all configured models."""
    starter = list(STARTER.values())
    configured = [name for settings in config.models.values() for name in settings.named]
    spelled = [one for name in names for one in (starter if name == catalog.ALL_STARTER else [name])]
    yield from dict.fromkeys(spelled if names else configured)


def fetch(store: Store, name: str, *, anew: bool = False) -> StoredModel:
    """Pull a model with a progress bar on stderr, with ``anew`` also one that is here. Raises as ``Store.pull``."""
    with ProgressBar(sys.stderr) as bar:

        def show(progress: Progress) -> None:
            label = f"{progress.model}: {progress.stage}"
            in_bytes = progress.stage in ("download", "verify")
            bar.update(label, progress.done, progress.total, "bytes" if in_bytes else "share")

        return store.renew(name, progress=show) if anew else store.pull(name, progress=show)


def _there(store: Store, name: str) -> StoredModel | None:
    try:
        return store.find(name)
    except ModelMissing:
        return None


def list_models(call: Call) -> int:
    """Print every model with its state, then the commands for damaged models and interrupted pulls."""
    store = call.store(call.config())
    damaged, left = store.damaged(), {one.name: one for one in store.leftovers()}
    rows: list[tuple[str, ...]] = [
        (one.name, one.job, human_size(one.size_bytes), one.licence, "yes") for one in store.list()
    ]
    rows += [(name, "-", "-", "-", "damaged") for name in damaged]
    here = {name for name, *_ in rows}
    rows += [
        (name, "-", human_size(one.size_bytes), "-", _stage(one)) for name, one in left.items() if name not in here
    ]
    if call.args.all:
        known = [one for one in catalog.MODELS.values() if one.name not in here | set(left)]
        rows += [(one.name, one.job, human_size(one.size_bytes), one.licence, _untried(one)) for one in known]
    if rows:
        print(table(("name", "job", "size", "licence", "pulled"), sorted(rows, key=lambda row: (row[1], row[0]))))
    else:
        print("No model is pulled yet; edgeserve pull starter fetches the starter models, list --all shows more.")
    for line in (*(error.message for error in damaged.values()), *map(_left, left.values())):
        print(line)
    if call.args.all:
        print(UNVERIFIED)
    return 0


def _untried(one: Entry) -> str:
    return "no" if one.verified else "no, unverified"


def _stage(one: Leftover) -> str:
    return f"{one.of} {'under way' if one.busy else 'broken off'}"


def _left(one: Leftover) -> str:
    what = f"{one.name}: {human_size(one.size_bytes)} of a {one.of}"
    if one.busy:
        return f"{what} under way"
    going = f"`edgeserve pull {one.name}`" if catalog.knows(one.name) else "pulling it from the same place again"
    on = f"{going} goes on, " if one.of == "pull" else ""
    return f"{what} that broke off; {on}`edgeserve remove {one.name}` removes it"


def show(call: Call) -> int:
    """Print a model of this device, or the catalogue's entry of a model that is not pulled."""
    store = call.store(call.config())
    stored = _there(store, call.args.name)
    known = stored or catalog.find(call.args.name)
    lines = {"name": known.name, "job": known.job, "size": human_size(known.size_bytes), "licence": known.licence}
    lines["source"] = known.source
    if stored:
        lines |= {"engine": stored.engine} | {f"file {role}": str(path) for role, path in stored.files.items()}
        lines |= {f"option {name}": str(value) for name, value in stored.options.items()}
        if words := tuning.summary(store.root, stored):
            lines["tuned"] = words
    if isinstance(known, Entry) and not known.verified:
        lines["verified"] = "no; its makers' figures, never pulled where edgeserve is built"
    lines["pulled"] = "yes" if stored else f"no; edgeserve pull {known.name}"
    width = max(map(len, lines))
    print("\n".join(f"{name:{width}}  {value}" for name, value in lines.items()))
    return 0


def remove(call: Call) -> int:
    store = call.store(call.config())
    store.remove(call.args.name)
    print(f"{call.args.name}: removed")
    return 0
