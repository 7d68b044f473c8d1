"""``edgeserve serve``: the server, and its greeting."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator

import edgeserve
from edgeserve.commands import Call, desktop, supply
from edgeserve.config import Config
from edgeserve.exposure import shown
from edgeserve.system import deferred, heap, streams

RECORDING = "hello.wav"
ACTIVATED = "LISTEN_FDS"
"""The variable of a service manager that opened the port itself (sd_listen_fds(3))."""
RARELY = ("calendar", "html", "logging.config", "uvicorn")
"""Modules that libraries of the server import for what it seldom does, or never, such as Uvicorn's own command line."""


def serve(call: Call) -> int:
    deferred.defer(*RARELY)
    with heap.uncollected():
        from edgeserve import listening, server

    config = call.config()
    store = call.store(config)
    if not call.args.no_pull and (names := supply.missing(config, store)):
        if ACTIVATED not in call.environ:  # else the service manager holds the port
            listening.check(config, insecure=call.args.insecure)  # a pull takes minutes: mistakes are told before it
        if code := supply.pull(call, names):
            return code

    def on_ready(address: str) -> None:
        with contextlib.suppress(OSError):  # a full disk or a closed pipe must not stop the server
            print("\n".join(greeting(config, address)), flush=True)
            if call.args.open:
                print(desktop.show(f"{local(address)}/", call.environ), flush=True)
        streams.finish()

    return server.serve(config, store, on_ready, insecure=call.args.insecure, read=call.config)


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
    base = local(address)
    key = ' -H "Authorization: Bearer $EDGESERVE_API_KEY"' if config.server.api_key else ""
    jobs = {settings.job for settings in config.models.values()}
    if "llm" in jobs:
        yield f"curl -s {base}/v1/chat{key} {_json(prompt='What is the capital of France?')}"
    if "tts" in jobs:
        yield f"curl -s {base}/v1/tts/synthesize{key} {_json(text='Hello from this small box.')} -o {RECORDING}"
    if "asr" in jobs:
        recording = RECORDING if "tts" in jobs else "recording.wav"
        yield f"curl -s {base}/v1/transcribe/file{key} -F audio=@{recording}"


def local(address: str) -> str:
    """An address that this machine can use: a server on all addresses answers on the loopback address."""
    return address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def _json(**body: str) -> str:
    return f"-H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"
