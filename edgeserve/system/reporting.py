"""Libraries that report their use to their makers, and the variables that switch the reports off."""

from __future__ import annotations

from collections.abc import MutableMapping

SWITCHES = {
    # ONNX Runtime 1.31 reads this variable when it is imported. Without it, the import alone writes a device id and a
    # database of events below the user's cache folder (docs/decisions/0004-code-pages-and-reporting.md).
    "ORT_DISABLE_TELEMETRY": "1",
    # huggingface_hub sends each hub the versions of all libraries that it finds.
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
"""Variable → value that switches a library's reports off."""


def switch_off(environ: MutableMapping[str, str]) -> None:
    """Set every variable that the user has not set; an empty one counts as not set. Child processes inherit them."""
    for name, value in SWITCHES.items():
        if not environ.get(name):
            environ[name] = value
