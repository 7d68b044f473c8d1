"""The bindings without the package around them."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

from edgeserve.engines.llama import bindings


def test_the_version_is_the_packages() -> None:
    assert bindings.version() == metadata.version("llama-cpp-python")


def test_the_package_itself_is_not_imported() -> None:
    code = (
        "import sys\n"
        "from edgeserve.engines.llama.bindings import load\n"
        "module = load('llama_cpp')\n"
        "heavy = {'numpy', 'jinja2', 'llama_cpp', 'typing_extensions'} & set(sys.modules)\n"
        "print(module.__name__, module is load('llama_cpp'), sorted(heavy))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "llama_cpp.llama_cpp True []"
