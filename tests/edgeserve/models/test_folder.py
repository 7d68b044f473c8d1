"""The folder of the models: from the environment, else in the user's data folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgeserve.errors import (
    ConfigError,
)
from edgeserve.models.folder import default_root


def test_the_root_follows_the_environment(tmp_path: Path) -> None:
    assert default_root({"EDGESERVE_MODELS_DIR": str(tmp_path)}) == tmp_path
    assert default_root({"HOME": "/h", "XDG_DATA_HOME": "/data"}) == (
        Path("/h/Library/Application Support/edgeserve/models")
        if sys.platform == "darwin"
        else Path("/data/edgeserve/models")
    )


@pytest.mark.parametrize("environ", [{"EDGESERVE_MODELS_DIR": "~nobody-of-this-name/models"}, {"HOME": "~nobody-here"}])
def test_an_unknown_home_is_an_error(environ: dict[str, str]) -> None:
    ((variable, value),) = environ.items()
    with pytest.raises(ConfigError, match=f"^{variable} = '{value}': this home folder is unknown"):
        default_root(environ)
