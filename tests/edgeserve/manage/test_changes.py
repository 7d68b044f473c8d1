"""The differences of two settings: all of them, each once, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from edgeserve.config import Config, ResidencySettings, ServerSettings
from edgeserve.manage.changes import AT_START, OF_MODELS, TUNABLE, Changes, changes, effective
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.model_settings import ModelSettings

MODELS = st.builds(
    ModelSettings,
    job=st.sampled_from(["llm", "asr"]),
    model=st.sampled_from(["a", "b"]),
    aliases=st.sampled_from([(), ("x",)]),
    pinned=st.booleans(),
    threads=st.integers(0, 1),
    options=st.sampled_from([{}, {"context": 512}]),
)
CONFIGS = st.builds(
    Config,
    server=st.builds(ServerSettings, port=st.integers(1, 2), queue_limit=st.integers(1, 2)),
    residency=st.builds(ResidencySettings, warm_after=st.sampled_from([1.0, 2.0])),
    memory=st.builds(MemoryPolicy, max_new_tokens=st.integers(1, 2), grace_seconds=st.sampled_from([1.0, 2.0])),
    models=st.dictionaries(st.sampled_from(["llm", "asr", "one", "two"]), MODELS),
)


def in_place(old: ModelSettings, new: ModelSettings) -> ModelSettings:
    """The old settings with the keys that change in place."""
    return dataclasses.replace(old, **{name: getattr(new, name) for name in OF_MODELS})


@given(CONFIGS, CONFIGS)
def test_the_changes_lead_from_one_to_the_other(old: Config, new: Config) -> None:
    found = changes(old, new)
    models: dict[str, ModelSettings] = {name: one for name, one in old.models.items() if name not in found.removed}
    models |= {name: new.models[name] for name in (*found.added, *found.replaced)}
    models |= {name: in_place(models[name], new.models[name]) for name in found.tuned}
    assert models == new.models
    lists = [*found.added, *found.removed, *found.replaced, *found.tuned]
    assert len(lists) == len(set(lists))
    assert set(found.added) == new.models.keys() - old.models.keys()
    assert set(found.removed) == old.models.keys() - new.models.keys()


@given(CONFIGS, CONFIGS)
def test_what_is_in_force_differs_from_the_new_settings_by_the_fixed_keys_alone(old: Config, new: Config) -> None:
    found, now = changes(old, new), effective(old, new)
    assert changes(now, new) == Changes(fixed=found.fixed)
    assert changes(old, now).fixed == ()
    assert changes(old, now).changed == found.changed


@given(CONFIGS)
def test_nothing_changes_between_equal_settings(one: Config) -> None:
    assert not changes(one, one)
    assert effective(one, one) == one


def test_each_key_is_told_by_its_table() -> None:
    one = Config(models={"llm": ModelSettings(model="a"), "mine": ModelSettings(model="b", pinned=True)})
    other = Config(
        server=ServerSettings(port=9, log_level="debug"),
        memory=MemoryPolicy(enabled=False, high_percent=81.0),
        models={"llm": ModelSettings(model="c"), "mine": ModelSettings(model="b"), "new": ModelSettings(model="d")},
    )
    assert changes(one, other) == Changes(
        added=("new",),
        replaced=("llm",),
        tuned=("mine",),
        changed=("[server] log_level", "[memory] high_percent", "[models.mine] pinned"),
        fixed=("[server] port", "[memory] enabled"),
    )


def test_the_tables_name_keys_that_exist() -> None:
    kinds: dict[str, Any] = {"server": ServerSettings, "residency": ResidencySettings, "memory": MemoryPolicy}
    for table, names in TUNABLE.items():
        assert names <= {one.name for one in dataclasses.fields(kinds[table])}
    assert {one.name for one in dataclasses.fields(ModelSettings)} >= OF_MODELS
    assert {one.name for one in dataclasses.fields(MemoryPolicy)} >= AT_START
