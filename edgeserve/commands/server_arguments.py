"""Arguments of the commands that ask a running server."""

from __future__ import annotations

from typing import Any

from edgeserve.commands.arguments import AddCommand, seconds


def add(commands: Any, command: AddCommand) -> None:
    for one in (_ps, _top, _load, _unload, _rm, _reload, _launch, _talk):
        one(commands, command)


def _server_options(parser: Any) -> None:
    """Options of a command that talks to a running server."""
    parser.add_argument("--url", metavar="URL", help="address of the server ($EDGESERVE_URL, else as in the settings)")
    parser.add_argument("--port", type=int, help="port of the server on this machine (8080)")


def _ps(commands: Any, command: AddCommand) -> None:
    _server_options(command(commands, "ps", "manage:ps", "list the models of the running server"))


def _top(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "top", "top:top", "show the running server's memory and models, live; q ends")
    parser.add_argument("--interval", type=seconds, default=1.0, metavar="SECONDS", help="time between looks (1)")
    _server_options(parser)


def _load(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "load", "manage:load", "let the running server load a model")
    parser.add_argument("name", metavar="NAME", help="name of the model")
    parser.add_argument("--to", choices=("hot", "warm"), default="hot", help="hot computes at once (hot)")
    _server_options(parser)


def _unload(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "unload", "manage:unload", "let the running server unload a model")
    parser.add_argument("name", metavar="NAME", help="name of the model")
    parser.add_argument("--to", choices=("cold", "warm"), default="cold", help="warm stays mapped (cold)")
    _server_options(parser)


def _rm(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "rm", "manage:rm", "let the running server delete a model that it does not serve")
    parser.add_argument("name", metavar="NAME", help="name of the model")
    _server_options(parser)


def _reload(commands: Any, command: AddCommand) -> None:
    _server_options(command(commands, "reload", "manage:reload", "let the running server read its settings again"))


def _launch(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "launch", "launch:launch", "print the settings that make a client use the server")
    parser.add_argument("client", nargs="?", metavar="CLIENT", help="such as open-webui; without one: list all")
    _server_options(parser)


def _talk(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "talk", "talk:talk", "hold a conversation by microphone and loudspeaker")
    parser.add_argument("--system", metavar="TEXT", help="system message of the conversation")
    parser.add_argument("--language", metavar="CODE", help="spoken language as ISO 639-1 code")
    parser.add_argument("--voice", metavar="NAME", help="voice to use (the model's default)")
    parser.add_argument(
        "--headphones", action="store_true", help="the microphone does not hear the answers: speech interrupts them"
    )
    _server_options(parser)
