"""``edgeserve launch``: settings that make a well-known client use this server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from types import MappingProxyType
from urllib.parse import urlsplit

from edgeserve.commands import Call
from edgeserve.commands.remote import URL, Server, server
from edgeserve.commands.served import LOOK_SECONDS
from edgeserve.dataclass import dataclass
from edgeserve.errors import EdgeserveError, InvalidRequest
from edgeserve.exposure import shown
from edgeserve.settings import ENV_PREFIX

KEY = f"${ENV_PREFIX}API_KEY"
"""Stands for the key, which is never printed."""
NO_KEY = "none"
"""A key for clients that want one, of a server that wants none."""
WYOMING = 10300
"""The port for Wyoming by habit."""


@dataclass(frozen=True, slots=True)
class Place:
    """The server as clients reach it. ``models``: the default model's name by job. ``wyoming``: its port; 0: off."""

    url: str
    needs_key: bool = False
    models: Mapping[str, str] = field(default_factory=dict)
    wyoming: int = 0

    @property
    def key(self) -> str:
        return KEY if self.needs_key else NO_KEY

    def model(self, job: str) -> str:
        """The name of the job's default, or a word in its place."""
        return self.models.get(job, f"{job.upper()}-MODEL")


def launch(call: Call) -> int:
    """Print the settings of one client, or the names of all."""
    name = call.args.client
    if name is None:
        print("\n".join(f"{one:15} {client.title}" for one, client in CLIENTS.items()))
        return 0
    if name not in CLIENTS:
        raise InvalidRequest(f"{name!r} is not a known client; known are {', '.join(CLIENTS)}", param="client")
    print(CLIENTS[name].write(place(call)))
    return 0


def place(call: Call) -> Place:
    """The server that the call means; its models as it lists them, else as the settings name them."""
    one, config = server(call), call.config()
    # A server at another address has settings of its own.
    here = not call.args.url and not call.environ.get(URL)
    configured: dict[str, str] = {}
    for settings in config.models.values() if here else ():
        if settings.default or settings.job not in configured:
            configured[settings.job] = shown(settings.model)
    return Place(one.url.rstrip("/"), bool(one.key), _told(one) or configured, config.server.wyoming if here else 0)


def _told(one: Server) -> dict[str, str]:
    """The default models of a running server; none where it does not answer."""
    try:
        models = one.ask("GET", "/v1/models", seconds=LOOK_SECONDS)["models"]
        return {found["type"]: found["name"] for found in reversed(models) if found["default"]}
    except (EdgeserveError, KeyError, TypeError):
        return {}


def open_webui(at: Place) -> str:
    return "\n".join(
        (
            "# Environment of Open WebUI. In its container, the host is host.docker.internal.",
            *_exported(
                OPENAI_API_BASE_URL=f"{at.url}/v1",
                OPENAI_API_KEY=at.key,
                DEFAULT_MODELS=at.model("llm"),
                AUDIO_STT_ENGINE="openai",
                AUDIO_STT_OPENAI_API_BASE_URL=f"{at.url}/v1",
                AUDIO_STT_OPENAI_API_KEY=at.key,
                AUDIO_STT_MODEL=at.model("asr"),
                AUDIO_TTS_ENGINE="openai",
                AUDIO_TTS_OPENAI_API_BASE_URL=f"{at.url}/v1",
                AUDIO_TTS_OPENAI_API_KEY=at.key,
                AUDIO_TTS_MODEL=at.model("tts"),
                AUDIO_TTS_VOICE="alloy",
            ),
        )
    )


def home_assistant(at: Place) -> str:
    host = urlsplit(at.url).hostname
    lines = [
        "Settings > Devices & services > Add integration:",
        f"  Wyoming Protocol   host {host}   port {at.wyoming or WYOMING}",
        "    speech to text, text to speech, and a conversation agent that answers questions",
        f"  Ollama             URL {at.url}   model {at.model('llm')}",
        "    a conversation agent that controls the house",
    ]
    if at.needs_key:
        lines.append(f"    the integration Ollama asks for the key: {at.key}")
    if not at.wyoming:
        lines.append(f"Wyoming is off: start the server with `edgeserve serve --wyoming {WYOMING}`")
    if host in ("127.0.0.1", "::1", "localhost"):
        lines.append("Home Assistant on another machine needs this one's address: see `edgeserve serve --host`")
    return "\n".join(lines)


def codex(at: Place) -> str:
    lines = [
        "# ~/.codex/config.toml",
        f"model = {json.dumps(at.model('llm'))}",
        'model_provider = "edgeserve"',
        "",
        "[model_providers.edgeserve]",
        'name = "edgeserve"',
        f"base_url = {json.dumps(f'{at.url}/v1')}",
        'wire_api = "responses"',
    ]
    return "\n".join([*lines, *([f'env_key = "{KEY[1:]}"'] if at.needs_key else [])])


def claude_code(at: Place) -> str:
    model = at.model("llm")
    exported = _exported(
        ANTHROPIC_BASE_URL=at.url,
        ANTHROPIC_AUTH_TOKEN=at.key,
        ANTHROPIC_MODEL=model,
        ANTHROPIC_DEFAULT_HAIKU_MODEL=model,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
    )
    return "\n".join([*exported, "claude"])


def continue_(at: Place) -> str:
    lines = [
        "# ~/.continue/config.yaml",
        "name: edgeserve",
        "version: 0.0.1",
        "schema: v1",
        "models:",
        f"  - name: {json.dumps(at.model('llm'))}",
        "    provider: openai",
        f"    model: {json.dumps(at.model('llm'))}",
        f"    apiBase: {json.dumps(f'{at.url}/v1')}",
        f"    apiKey: {json.dumps(_secret(at, '${{ secrets.EDGESERVE_API_KEY }}'))}",
        "    roles: [chat, edit, apply]",
    ]
    if "embedding" in at.models:
        lines += [
            f"  - name: {json.dumps(at.model('embedding'))}",
            "    provider: openai",
            f"    model: {json.dumps(at.model('embedding'))}",
            f"    apiBase: {json.dumps(f'{at.url}/v1')}",
            f"    apiKey: {json.dumps(_secret(at, '${{ secrets.EDGESERVE_API_KEY }}'))}",
            "    roles: [embed]",
        ]
    return "\n".join(lines)


def langchain(at: Place) -> str:
    key = f'os.environ["{KEY[1:]}"]' if at.needs_key else json.dumps(NO_KEY)
    return "\n".join(
        [
            "# pip install langchain-openai",
            *(["import os", ""] if at.needs_key else []),
            "from langchain_openai import ChatOpenAI",
            "",
            f'model = ChatOpenAI(base_url="{at.url}/v1", api_key={key}, model={json.dumps(at.model("llm"))})',
            'print(model.invoke("Name a bird.").text)',
        ]
    )


def llm(at: Place) -> str:
    lines = [
        '# extra-openai-models.yaml in the folder that `dirname "$(llm logs path)"` prints',
        "- model_id: edgeserve",
        f"  model_name: {json.dumps(at.model('llm'))}",
        f"  api_base: {json.dumps(f'{at.url}/v1')}",
    ]
    if at.needs_key:
        lines += ["  api_key_name: edgeserve", f'# then: llm keys set edgeserve --value "{KEY}"']
    return "\n".join([*lines, "# and: llm -m edgeserve 'Name a bird.'"])


def _exported(**variables: str) -> list[str]:
    """Lines for a shell. A value that names a variable keeps its name."""
    return [f'export {name}="{value}"' for name, value in variables.items()]


def _secret(at: Place, name: str) -> str:
    return name if at.needs_key else NO_KEY


@dataclass(frozen=True, slots=True)
class Client:
    """A client, and the writer of its settings."""

    title: str
    write: Callable[[Place], str]


CLIENTS: Mapping[str, Client] = MappingProxyType(
    {
        "open-webui": Client("Open WebUI: chat, transcription and speech", open_webui),
        "home-assistant": Client("Home Assistant: voice and conversation", home_assistant),
        "codex": Client("Codex, OpenAI's agent in a terminal", codex),
        "claude-code": Client("Claude Code, Anthropic's agent in a terminal", claude_code),
        "continue": Client("Continue, for editors", continue_),
        "langchain": Client("LangChain, a library for Python", langchain),
        "llm": Client("llm, a command for terminals", llm),
    }
)
