"""Arguments of the commands that let a model work."""

from __future__ import annotations

from typing import Any

from edgeserve.commands.arguments import DEVICES, AddCommand, positive


def add(commands: Any, command: AddCommand) -> None:
    for one in (_chat, _vision, _transcribe, _speak):
        one(commands, command)


def _chat(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "chat", "chat:chat", "answer a prompt, or hold a conversation")
    parser.add_argument(
        "prompt", nargs="?", metavar="PROMPT", help="prompt; without one: stdin, or a conversation in a terminal"
    )
    parser.add_argument("--system", metavar="TEXT", help="system message of the conversation")
    parser.add_argument("--max-tokens", type=positive, metavar="N", help="longest answer, in tokens")
    _engine_options(parser, "llm")
    _asks_server(parser)


def _vision(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "vision", "chat:vision", "answer a question about a picture")
    parser.add_argument("image", metavar="IMAGE", help="PNG or JPEG file")
    parser.add_argument(
        "prompt", nargs="?", default="Describe this picture.", metavar="PROMPT", help="question (%(default)s)"
    )
    parser.add_argument("--max-tokens", type=positive, metavar="N", help="longest answer, in tokens")
    parser.add_argument("--mmproj", metavar="FILE", help="projector of the model")
    _engine_options(parser, "vlm_model")


def _transcribe(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "transcribe", "audio:transcribe", "turn speech into text")
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


def _speak(commands: Any, command: AddCommand) -> None:
    parser = command(commands, "speak", "speak:speak", "turn text into speech, played or written to a file")
    parser.add_argument("text", metavar="TEXT", help="text to speak; - reads stdin")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="file to write instead of playing: .wav, .mp3, .flac, .opus, "
        ".aac or .pcm; - writes WAV to stdout"
    )  # fmt: skip
    parser.add_argument("--voice", metavar="NAME", help="voice to use (the model's default)")
    parser.add_argument("--speed", type=float, default=1.0, metavar="FACTOR", help="speed, 0.25 to 4.0 (1.0)")
    _engine_options(parser, "tts_model")
    _asks_server(parser)


def _engine_options(parser: Any, model_flag: str) -> None:
    parser.add_argument("--model", dest=model_flag, metavar="NAME", help="model to use instead of the configured one")
    parser.add_argument("--device", choices=DEVICES, help="device that computes (auto)")


def _asks_server(parser: Any) -> None:
    """Options of a command that lets a running server work where there is one."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", metavar="URL", help="ask the server at this address ($EDGESERVE_URL)")
    where.add_argument("--local", action="store_true", help="ask no running server; work in this process")
