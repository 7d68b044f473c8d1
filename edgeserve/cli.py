"""The command ``edgeserve``: its arguments and its exit codes.

Each subcommand is a function of ``edgeserve.commands``. An import string names it, so that ``--help`` is quick. Exit
codes (docs/configuration.md): 0 success, 1 failure, 2 wrong usage or settings, 130 Ctrl-C, 141 closed output.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import edgeserve
from edgeserve.commands import Call, PoolBuilder, doors, model_arguments, server_arguments, work_arguments
from edgeserve.commands.arguments import DEVICES, Parser
from edgeserve.commands.cluster_arguments import add_cluster, add_rpc_worker
from edgeserve.errors import ConfigError, EdgeserveError, NotConfigured
from edgeserve.jobs import INFO
from edgeserve.system import streams

SERVE = "serve:serve"
LEVELS = ("debug", "info", "warning", "error")


def main(
    argv: Sequence[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    build_pool: PoolBuilder | None = None,
    on_begin: Callable[[], object] = lambda: None,
) -> int:
    """Run one command; returns its exit code. ``build_pool`` lets tests use fake engines.

    ``on_begin`` is called before a command that Ctrl-C may interrupt. The server handles signals itself.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # the terminal may lack characters of an answer
    args = make_parser().parse_args(argv)
    module, _, function = args.run.partition(":")
    try:
        command = getattr(importlib.import_module(f"edgeserve.commands.{module}"), function)
        if args.run != SERVE:
            on_begin()
        code: int = command(Call(args, os.environ if environ is None else environ, build_pool))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:
        unwritten = streams.finish()
        debug = getattr(args, "log_level", None) == "debug"
        if unwritten is not None or isinstance(error, BrokenPipeError):
            return unread(unwritten or error, debug)
        return fail(error, debug=debug)
    unwritten = streams.finish()
    return code if unwritten is None else unread(unwritten, debug=False)


def unread(error: Exception, debug: bool) -> int:
    """The exit code of a command whose stdout takes no more bytes."""
    if isinstance(error, BrokenPipeError):
        return 128 + signal.SIGPIPE
    return fail(error, debug=debug)


def fail(error: Exception, *, debug: bool) -> int:
    """Print one line about the error, with ``debug`` the traceback too. Returns the exit code."""
    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename or 'cannot read or write'}: {error.strerror}"
    elif isinstance(error, EdgeserveError | OSError):
        message = str(error)
    else:
        message = f"unforeseen {type(error).__name__}: {error}; --log-level debug shows where"
    with contextlib.suppress(OSError):  # stderr may be full or closed; the exit code remains
        print(f"[ERROR] {' '.join(message.split())}", file=sys.stderr)
    return 2 if isinstance(error, ConfigError | NotConfigured) else 1


@functools.cache  # a program, such as a test, may run several commands
def make_parser() -> Parser:
    parser = Parser(prog="edgeserve", description="Chat, vision, transcription and speech with local models.")
    parser.add_argument("--version", action="version", version=f"edgeserve {edgeserve.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (_serve, _pull):
        add(commands)
    for room in (model_arguments, work_arguments, server_arguments):
        room.add(commands, _command)
    for added in (doors.key, doors.qr, doors.health, doors.service):
        added(commands, _command)
    add_cluster(commands, _command)
    add_rpc_worker(commands, _command)
    return parser


def _command(commands: Any, name: str, run: str, text: str) -> Parser:
    """Add a subcommand with the options that every subcommand has."""
    parser: Parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument("--config", metavar="FILE", help="settings file (./models.toml)")
    parser.add_argument("--log-level", choices=LEVELS, help="least level of log lines on stderr")
    parser.set_defaults(run=run)
    return parser


def _serve(commands: Any) -> None:
    parser = _command(commands, "serve", SERVE, "answer HTTP requests until Ctrl-C or SIGTERM")
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (8080); 0 takes a free one")
    parser.add_argument("--wyoming", type=int, metavar="PORT", help="speak Wyoming on this port, too; 0 does not (0)")
    for job in INFO.values():
        parser.add_argument(job.flag, metavar="NAME", help=f"model for {job.words}")
    parser.add_argument("--mmproj", metavar="FILE", help="projector of the vision model, a file")
    parser.add_argument("--device", choices=DEVICES, help="device that computes (auto)")
    parser.add_argument(
        "--idle-timeout", type=float, metavar="SECONDS", help="idle time before a speech engine closes (300)"
    )
    parser.add_argument("--preload", metavar="ENGINES", help='engines to load at startup, such as asr,tts; or "all"')
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="let any machine that reaches this one use the server without a key",
    )
    parser.add_argument("--log-format", choices=("plain", "json"), help="log lines for people or as JSON (plain)")
    parser.add_argument("--no-pull", action="store_true", help="end when a configured model is missing; pull nothing")
    parser.add_argument("--open", action="store_true", help="open the server's page in a browser")
    doors.serve_options(parser)
    parser.add_argument(
        "--until-eof",
        action="store_true",
        help="end as SIGTERM does when stdin ends, for a program that starts servers",
    )


def _pull(commands: Any) -> None:
    parser = _command(commands, "pull", "models:pull", "fetch models to this device")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help='model of the catalogue, address or path; "starter" for the '
        "starter models; without a name, all models of models.toml"
    )  # fmt: skip
    parser.add_argument("--url", metavar="URL", help="let the server at this address pull ($EDGESERVE_URL)")
