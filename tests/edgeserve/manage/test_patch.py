"""Settings with keys changed by a request. The wrong ones: tests/edgeserve/api/manage/test_settings.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.config import Config
from edgeserve.errors import ConfigError
from edgeserve.manage.changes import changes, effective
from edgeserve.manage.patch import patched
from edgeserve.model_settings import ModelSettings

CONFIG = Config(models={"llm": ModelSettings(model="a", options={"context": 512}), "two": ModelSettings(model="b")})
ANYTHING = st.sampled_from(
    [None, True, -1, 3, 0.5, float("nan"), "", "info", "5m", "soon", [], ["chat"], [1], {}, {"a": 1}]
)
KEYS = ("log_level", "queue_limit", "port", "warm_after", "grace_seconds", "enabled", "pinned", "aliases", "when", "x")
TABLES = ("server", "residency", "memory", "models", "wheel")


def test_only_what_is_given_changes() -> None:
    new = patched(CONFIG, {"memory": {"grace_seconds": 1}, "models": {"llm": {"aliases": ["x"], "default": True}}})
    found = changes(CONFIG, new)
    assert found.changed == ("[memory] grace_seconds", "[llm] aliases", "[llm] default")
    assert (new.memory.grace_seconds, new.models["llm"].aliases) == (1.0, ("x",))
    assert new.models["llm"].options == {"context": 512}
    assert new.models["two"] is CONFIG.models["two"]


def test_two_models_cannot_share_an_alias() -> None:
    with pytest.raises(ConfigError, match="alias 'x' of llm is"):
        patched(CONFIG, {"models": {"llm": {"aliases": ["x"]}, "two": {"aliases": ["X"]}}})


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(TABLES),
        st.dictionaries(st.sampled_from([*KEYS, "llm"]), ANYTHING | st.dictionaries(st.sampled_from(KEYS), ANYTHING)),
        max_size=2,
    )
    | st.dictionaries(st.sampled_from(TABLES), ANYTHING)
)
def test_any_patch_is_refused_by_its_name_or_holds_at_once(given: Any) -> None:
    try:
        new = patched(CONFIG, given)
    except ConfigError:
        return
    found = changes(CONFIG, new)
    assert (found.added, found.removed, found.replaced, found.fixed) == ((), (), (), ())
    assert effective(CONFIG, new) == new
