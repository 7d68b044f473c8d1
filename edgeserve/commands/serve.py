"""``edgeserve serve``: the server, and its greeting."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Iterator

import edgeserve
from edgeserve.commands import Call
from edgeserve.config import Config
from edgeserve.exposure import shown
from edgeserve.system import deferred, heap, lifeline, streams

RECORDING = "hello.wav"
RARELY = ("calendar", "html", "logging.config", "uvicorn")
"""Modules that libraries of the server import for what it seldom does, or never, such as Uvicorn's own command line."""


def serve(call: Call) -> int:
    deferred.defer(*RARELY)
    with heap.uncollected():
        from edgeserve import server

    config = call.config()
    if call.args.until_eof:
        lifeline.end_with(sys.stdin.fileno())

    def on_ready(address: str) -> None:
        with contextlib.suppress(OSError):  # a full disk or a closed pipe must not stop the server
            print("\n".join(greeting(config, address)), flush=True)
        streams.finish()

    return server.serve(config, call.store(config), on_ready, insecure=call.args.insecure, read=call.config)


def greeting(config: Config, address: str) -> Iterator[str]:
    """Lines of the greeting: address, engines with their models, and commands that work when pasted in order."""
    yield f"edgeserve {edgeserve.__version__} serves on {address} (Ctrl-C stops it)"
    width = max(map(len, config.models), default=0)
    for model, settings in config.models.items():
        yield f"  {model:{width}}  {shown(settings.model)}"
    if not config.models:
        yield f"  no engine: {config.source} lists none"
        return
    yield "Try, with the key in EDGESERVE_API_KEY:" if config.server.api_key else "Try:"
    yield from (f"  {command}" for command in examples(config, address))


def examples(config: Config, address: str) -> Iterator[str]:
    # A server on all addresses answers on the loopback address.
    base = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    key = ' -H "Authorization: Bearer $EDGESERVE_API_KEY"' if config.server.api_key else ""
    jobs = {settings.job for settings in config.models.values()}
    if "llm" in jobs:
        yield f"curl -s {base}/v1/chat{key} {_json(prompt='What is the capital of France?')}"
    if "tts" in jobs:
        yield f"curl -s {base}/v1/tts/synthesize{key} {_json(text='Hello from this small box.')} -o {RECORDING}"
    if "asr" in jobs:
        recording = RECORDING if "tts" in jobs else "recording.wav"
        yield f"curl -s {base}/v1/transcribe/file{key} -F audio=@{recording}"


def _json(**body: str) -> str:
    return f"-H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"
