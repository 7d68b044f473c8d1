"""The command ``edgeserve``: its arguments and its exit codes.

Each subcommand is a function of ``edgeserve.commands``. An import string names it, so that ``--help`` is quick. Exit
codes (docs/configuration.md): 0 success, 1 failure, 2 wrong usage or settings, 130 Ctrl-C, 141 closed output.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import math
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import edgeserve
from edgeserve.commands import Call, PoolBuilder, doors
from edgeserve.commands.cluster_arguments import add_cluster
from edgeserve.errors import ConfigError, EdgeserveError, NotConfigured
from edgeserve.jobs import ALL_JOBS, INFO
from edgeserve.system import streams

SERVE = "serve:serve"
LEVELS = ("debug", "info", "warning", "error")
DEVICES = ("auto", "cpu", "cuda", "metal")


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


class Parser(argparse.ArgumentParser):
    """A parser that reports wrong usage in one line, as all other errors."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=28), **settings)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"[ERROR] {message}; see {self.prog} --help\n")


def make_parser() -> Parser:
    parser = Parser(prog="edgeserve", description="Chat, vision, transcription and speech with local models.")
    parser.add_argument("--version", action="version", version=f"edgeserve {edgeserve.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (_serve, _pull, _list, _show, _remove, _chat, _vision, _transcribe, _speak, _doctor, _recommend, _tune):
        add(commands)
    for add in (_ps, _top, _load, _unload, _rm, _reload, _launch, _talk):
        add(commands)
    for add in (_init, _verify, _clean, _update):
        add(commands)
    for added in (doors.key, doors.qr, doors.health, doors.service):
        added(commands, _command)
    add_cluster(commands, _command)
    return parser


def _command(commands: Any, name: str, run: str, text: str) -> Parser:
    """Add a subcommand with the options that every subcommand has."""
    parser: Parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument("--config", metavar="FILE", help="settings file (./models.toml)")
    parser.add_argument("--log-level", choices=LEVELS, help="least level of log lines on stderr")
    parser.set_defaults(run=run)
    return parser


def _engine_options(parser: Parser, model_flag: str) -> None:
    parser.add_argument("--model", dest=model_flag, metavar="NAME", help="model to use instead of the configured one")
    parser.add_argument("--device", choices=DEVICES, help="device that computes (auto)")


def _asks_server(parser: Parser) -> None:
    """Options of a command that lets a running server work where there is one."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", metavar="URL", help="ask the server at this address ($EDGESERVE_URL)")
    where.add_argument("--local", action="store_true", help="ask no running server; work in this process")


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


def _server_options(parser: Parser) -> None:
    """Options of a command that talks to a running server."""
    parser.add_argument("--url", metavar="URL", help="address of the server ($EDGESERVE_URL, else as in the settings)")
    parser.add_argument("--port", type=int, help="port of the server on this machine (8080)")


def _ps(commands: Any) -> None:
    _server_options(_command(commands, "ps", "manage:ps", "list the models of the running server"))


def _top(commands: Any) -> None:
    parser = _command(commands, "top", "top:top", "show the running server's memory and models, live; q ends")
    parser.add_argument("--interval", type=_seconds, default=1.0, metavar="SECONDS", help="time between looks (1)")
    _server_options(parser)


def _load(commands: Any) -> None:
    parser = _command(commands, "load", "manage:load", "let the running server load a model")
    parser.add_argument("name", metavar="NAME", help="name of the model")
    parser.add_argument("--to", choices=("hot", "warm"), default="hot", help="hot computes at once (hot)")
    _server_options(parser)


def _unload(commands: Any) -> None:
    parser = _command(commands, "unload", "manage:unload", "let the running server unload a model")
    parser.add_argument("name", metavar="NAME", help="name of the model")
    parser.add_argument("--to", choices=("cold", "warm"), default="cold", help="warm stays mapped (cold)")
    _server_options(parser)


def _rm(commands: Any) -> None:
    parser = _command(commands, "rm", "manage:rm", "let the running server delete a model that it does not serve")
    parser.add_argument("name", metavar="NAME", help="name of the model")
    _server_options(parser)


def _reload(commands: Any) -> None:
    _server_options(_command(commands, "reload", "manage:reload", "let the running server read its settings again"))


def _launch(commands: Any) -> None:
    parser = _command(commands, "launch", "launch:launch", "print the settings that make a client use the server")
    parser.add_argument("client", nargs="?", metavar="CLIENT", help="such as open-webui; without one: list all")
    _server_options(parser)


def _talk(commands: Any) -> None:
    parser = _command(commands, "talk", "talk:talk", "hold a conversation by microphone and loudspeaker")
    parser.add_argument("--system", metavar="TEXT", help="system message of the conversation")
    parser.add_argument("--language", metavar="CODE", help="spoken language as ISO 639-1 code")
    parser.add_argument("--voice", metavar="NAME", help="voice to use (the model's default)")
    _server_options(parser)


def _list(commands: Any) -> None:
    parser = _command(commands, "list", "models:list_models", "list the models on this device")
    parser.add_argument("--all", action="store_true", help="add the catalogue's other models")


def _show(commands: Any) -> None:
    parser = _command(commands, "show", "models:show", "show source, licence and files of a model")
    parser.add_argument("name", metavar="NAME", help="name of the model")


def _init(commands: Any) -> None:
    parser = _command(commands, "init", "init:init", "write a models.toml that suits this machine")
    parser.add_argument("-o", "--output", default="models.toml", metavar="FILE", help="file to write (%(default)s)")
    parser.add_argument("--job", action="append", choices=ALL_JOBS, help="only this job; may be repeated")
    parser.add_argument("--share", action="store_true", help="let other machines in, with a key that is made up now")
    parser.add_argument("--starter", action="store_true", help="take the starter models, which suit any machine")
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def _verify(commands: Any) -> None:
    parser = _command(commands, "verify", "upkeep:verify", "compare the files of models with their checksums")
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of a model; without one: all on this device")


def _clean(commands: Any) -> None:
    parser = _command(commands, "clean", "upkeep:clean", "delete what interrupted pulls and removals left")
    parser.add_argument("--unused", action="store_true", help="also models that the settings do not name")
    parser.add_argument("--yes", action="store_true", help="ask nothing")


def _update(commands: Any) -> None:
    parser = _command(commands, "update", "upkeep:update", "pull the models again that changed in the catalogue")
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of a model; without one: all on this device")
    parser.add_argument("--check", action="store_true", help="only say which; ends with 1 when there are any")


def _tune(commands: Any) -> None:
    parser = _command(commands, "tune", "tune:tune", "measure the fastest settings of a model on this machine")
    parser.add_argument("name", metavar="NAME", help="name of the model")
    parser.add_argument("--force", action="store_true", help="keep the figures though other programs were busy")


def _remove(commands: Any) -> None:
    parser = _command(commands, "remove", "models:remove", "delete a model's files")
    parser.add_argument("name", metavar="NAME", help="name of the model")


def _chat(commands: Any) -> None:
    parser = _command(commands, "chat", "chat:chat", "answer a prompt, or hold a conversation")
    parser.add_argument(
        "prompt", nargs="?", metavar="PROMPT", help="prompt; without one: stdin, or a conversation in a terminal"
    )
    parser.add_argument("--system", metavar="TEXT", help="system message of the conversation")
    parser.add_argument("--max-tokens", type=_positive, metavar="N", help="longest answer, in tokens")
    _engine_options(parser, "llm")
    _asks_server(parser)


def _vision(commands: Any) -> None:
    parser = _command(commands, "vision", "chat:vision", "answer a question about a picture")
    parser.add_argument("image", metavar="IMAGE", help="PNG or JPEG file")
    parser.add_argument(
        "prompt", nargs="?", default="Describe this picture.", metavar="PROMPT", help="question (%(default)s)"
    )
    parser.add_argument("--max-tokens", type=_positive, metavar="N", help="longest answer, in tokens")
    parser.add_argument("--mmproj", metavar="FILE", help="projector of the model")
    _engine_options(parser, "vlm_model")


def _transcribe(commands: Any) -> None:
    parser = _command(commands, "transcribe", "audio:transcribe", "turn speech into text")
    parser.add_argument("file", metavar="FILE", help="audio or video file; - reads stdin")
    parser.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="file to write: .txt, .srt, .vtt or .json (stdout)"
    )
    parser.add_argument(
        "--format", choices=("text", "json", "srt", "vtt"), help="format of the output (by its name, else text)"
    )
    parser.add_argument("--language", metavar="CODE", help="spoken language as ISO 639-1 code")
    parser.add_argument(
        "--translate", action="store_true", help="translate into English (needs a multilingual Whisper)"
    )
    _engine_options(parser, "asr_model")
    _asks_server(parser)


def _speak(commands: Any) -> None:
    parser = _command(commands, "speak", "speak:speak", "turn text into speech, played or written to a file")
    parser.add_argument("text", metavar="TEXT", help="text to speak; - reads stdin")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="file to write instead of playing: .wav, .mp3, .flac, .opus, "
        ".aac or .pcm; - writes WAV to stdout"
    )  # fmt: skip
    parser.add_argument("--voice", metavar="NAME", help="voice to use (the model's default)")
    parser.add_argument("--speed", type=float, default=1.0, metavar="FACTOR", help="speed, 0.25 to 4.0 (1.0)")
    _engine_options(parser, "tts_model")
    _asks_server(parser)


def _doctor(commands: Any) -> None:
    parser = _command(
        commands, "doctor", "doctor:doctor", "report this machine, the models that fit, and what is missing"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _recommend(commands: Any) -> None:
    parser = _command(commands, "recommend", "recommend:recommend", "say which models suit this machine")
    parser.add_argument("--job", action="append", choices=ALL_JOBS, help="only models for this job; may be repeated")
    parser.add_argument("--all", action="store_true", help="add the models that do not suit, with the reason")
    parser.add_argument("--memory", type=_positive, metavar="MB", help="advise a machine of so much memory")
    parser.add_argument("--calibrate", action="store_true", help="measure the speed of this machine again")
    parser.add_argument("--json", action="store_true", help="print the advice as JSON")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan  # lies in no range
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"must be from 0.1 to 3600 seconds, not {text}")
    return value


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text}")
    return value
