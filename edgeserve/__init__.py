"""edgeserve: chat, vision, transcription and speech over HTTP with local models, inside a memory budget."""

import os

from edgeserve.system import reporting

__version__ = "0.1.0"

# Every process imports this package before any library that reports to its makers.
reporting.switch_off(os.environ)
