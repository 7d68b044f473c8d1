"""``edgeserve serve``: the server, and its greeting."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Iterator

import edgeserve
from edgeserve.commands import Call, desktop, supply
from edgeserve.config import Config
from edgeserve.dataclass import dataclass
from edgeserve.exposure import shown
from edgeserve.own_files import keys_path, tls_folder
from edgeserve.system import deferred, heap, lifeline, streams

RECORDING = "hello.wav"
ACTIVATED = "LISTEN_FDS"
"""The variable of a service manager that opened the port itself (sd_listen_fds(3))."""
RARELY = (
    *("calendar", "configparser", "email.message", "email.parser", "html", "http.client", "logging.config"),
    "uvicorn",
    *("edgeserve.engines.tts.text.cut", "edgeserve.engines.tts.text.normal"),
)
"""Modules that libraries of the server import for what it seldom does, or never, such as Uvicorn's own command line.

The texts of speech are prepared in the worker that speaks, unless the engine lives on threads.
"""


def serve(call: Call) -> int:
    deferred.defer(*RARELY)
    with heap.uncollected():
        from edgeserve import listening, server

    config = call.config()
    if call.args.until_eof:
        lifeline.end_with(sys.stdin.fileno())
    store = call.store(config)
    door = Door.of(call, config)
    if not call.args.no_pull and (names := supply.missing(config, store)):
        if ACTIVATED not in call.environ:  # else the service manager holds the port
            # A pull takes minutes: mistakes are reported before it.
            listening.check(config, locked=door.locked, insecure=call.args.insecure)
        if code := supply.pull(call, names):
            return code

    def on_ready(address: str) -> None:
        with contextlib.suppress(OSError):  # a full disk or a closed pipe must not stop the server
            print("\n".join(greeting(config, address, door)), flush=True)
            if call.args.qr:
                from edgeserve.commands import qr

                qr.show(config, address)
            if call.args.open:
                print(desktop.show(f"{local(address)}/", call.environ), flush=True)
        streams.finish()

    return server.serve(config, store, on_ready, insecure=call.args.insecure, read=call.config, environ=call.environ)


@dataclass(frozen=True, slots=True)
class Door:
    """Whether the server demands a key, and the certificate that clients of this machine have to trust, if any."""

    locked: bool = False
    certificate: str = ""

    @classmethod
    def of(cls, call: Call, config: Config) -> Door:
        """Raises ConfigError."""
        store = call.store(config)
        locked = bool(config.server.api_key) or keys_path(config, store).is_file()
        if config.server.tls != "self-signed":
            return cls(locked)
        from edgeserve.tls.self_signed import FILE

        return cls(locked, str(tls_folder(store) / FILE))


NO_DOOR = Door()


def greeting(config: Config, address: str, door: Door = NO_DOOR) -> Iterator[str]:
    """Lines of the greeting: address, engines with their models, and commands that work when pasted in order."""
    yield f"edgeserve {edgeserve.__version__} serves on {address} (Ctrl-C stops it)"
    width = max(map(len, config.models), default=0)
    for model, settings in config.models.items():
        yield f"  {model:{width}}  {shown(settings.model)}"
    page = f"Open {local(address)}/ in a browser"
    if not config.models:
        yield f"  no engine: {config.source} lists none"
        yield page
        return
    yield f"{page}, or try{', with the key in EDGESERVE_API_KEY' if door.locked else ''}:"
    yield from (f"  {command}" for command in examples(config, address, door))


def examples(config: Config, address: str, door: Door = NO_DOOR) -> Iterator[str]:
    base = local(address)
    key = f" --cacert {shlex.quote(door.certificate)}" if door.certificate else ""
    key += ' -H "Authorization: Bearer $EDGESERVE_API_KEY"' if door.locked else ""
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
