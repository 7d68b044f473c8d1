"""``edgeserve pull``, ``list``, ``show`` and ``remove``: the models on this device."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from edgeserve.commands import Call
from edgeserve.config import STARTER, Config
from edgeserve.errors import ModelMissing
from edgeserve.store import Progress, Store, StoredModel
from edgeserve.terminal import ProgressBar, human_size, table


def pull(call: Call) -> int:
    config = call.config()
    store = call.store(config)
    for name in wanted(call.args.names, config):
        here = _there(store, name)
        if here is not None:
            print(f"{here.name}: already here, {human_size(here.size_bytes)}")
        for one in store.lacking(name) if here is not None else (name,):
            stored = fetch(store, one)
            print(f"{stored.name}: pulled, {human_size(stored.size_bytes)}, licence {stored.licence}")
    return 0


def wanted(names: list[str], config: Config) -> Iterator[str]:
    """Names as typed, ``starter`` spelled out; without any, what the settings list. Each once, in order."""
    starter = [settings.model for settings in STARTER.values()]
    configured = [settings.model for settings in config.engines.values()]
    spelled = [one for name in names for one in (starter if name == "starter" else [name])]
    yield from dict.fromkeys(spelled if names else configured)


def fetch(store: Store, name: str) -> StoredModel:
    with ProgressBar(sys.stderr) as bar:

        def show(progress: Progress) -> None:
            label = f"{progress.model}: {progress.stage}"
            in_bytes = progress.stage in ("download", "verify")
            bar.update(label, progress.done, progress.total, "bytes" if in_bytes else "share")

        return store.pull(name, progress=show)


def _there(store: Store, name: str) -> StoredModel | None:
    try:
        return store.find(name)
    except ModelMissing:
        return None


def list_models(call: Call) -> int:
    from edgeserve import catalog

    pulled = call.store(call.config()).list()
    here = {stored.name for stored in pulled}
    known = [one for one in catalog.MODELS.values() if one.name not in here] if call.args.all else []
    rows: list[tuple[str, ...]] = []
    rows += [(one.name, one.job, human_size(one.size_bytes), one.licence, "yes") for one in pulled]
    rows += [(one.name, one.job, human_size(one.size_bytes), one.licence, "no") for one in known]
    if rows:
        print(table(("name", "job", "size", "licence", "pulled"), sorted(rows, key=lambda row: (row[1], row[0]))))
    else:
        print("No model is pulled yet; edgeserve pull starter fetches the starter models, list --all shows more.")
    return 0


def show(call: Call) -> int:
    """What is on this device; for a model that is not pulled, what the catalogue knows."""
    from edgeserve import catalog

    store = call.store(call.config())
    stored = _there(store, call.args.name)
    known = stored or catalog.find(call.args.name)
    lines = {"name": known.name, "job": known.job, "size": human_size(known.size_bytes), "licence": known.licence}
    lines["source"] = known.source
    if stored:
        lines |= {"engine": stored.engine} | {f"file {role}": str(path) for role, path in stored.files.items()}
        lines |= {f"option {name}": str(value) for name, value in stored.options.items()}
    lines["pulled"] = "yes" if stored else f"no; edgeserve pull {known.name}"
    width = max(map(len, lines))
    print("\n".join(f"{name:{width}}  {value}" for name, value in lines.items()))
    return 0


def remove(call: Call) -> int:
    store = call.store(call.config())
    store.remove(call.args.name)
    print(f"{call.args.name}: removed")
    return 0
