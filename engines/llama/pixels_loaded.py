"""Importing this module loads the decoder of pictures: a fork server imports it, and its children share the library."""

from __future__ import annotations

from edgeserve.engines.llama import pixels

pixels.load()
