"""The project's own tools, loaded from ``tools/``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
PAGE = """# Title: `code` & more

See [there](other.md), [the part](other.md#a-part), [here](#title-code--more), [out](https://example.org/x).
`[not a link](nowhere.md)`

```sh
echo one \\
  two    # a comment
exit 3
```

<!-- not run: it takes too long -->
```sh
exit 4
```

```python
assert 1 + 1 == 2
```
"""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def prose() -> ModuleType:
    return load("prose")


@pytest.fixture(scope="session")
def docs_pages() -> ModuleType:
    return load("docs_pages")


@pytest.fixture(scope="session")
def docs_check(docs_pages: ModuleType) -> ModuleType:
    """It imports ``docs_pages``, which is loaded by then."""
    return load("docs_check")


@pytest.fixture
def page(docs_pages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(docs_pages, "ROOT", tmp_path)
    (tmp_path / "other.md").write_text("# A part\n")
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


@pytest.fixture(scope="session")
def site_nav() -> ModuleType:
    return load("site_nav")


@pytest.fixture(scope="session")
def house() -> ModuleType:
    return load("house")
