"""``edgeserve chat`` and ``edgeserve vision``: answers are printed token by token."""

from __future__ import annotations

import sys
from pathlib import Path

from edgeserve.commands import Call
from edgeserve.commands.session import Asked, open_session
from edgeserve.errors import EdgeserveError, InvalidRequest
from edgeserve.messages import ChatEvent, ChatRequest, FinishEvent, ImagePart, Message, TextPart, TokenEvent
from edgeserve.system import streams
from edgeserve.terminal import is_terminal

HELP = "/reset forgets the conversation, /exit or Ctrl-D leaves, Ctrl-C stops an answer"


def chat(call: Call) -> int:
    talks = call.args.prompt is None and is_terminal(sys.stdin) and is_terminal(sys.stdout)
    prompt = call.args.prompt
    if prompt is None and not talks:
        prompt = streams.read_text(
            "prompt"
        ).strip()  # echo and here-documents append a newline, which changes a small model's answer
    if prompt is not None and not prompt.strip():
        raise InvalidRequest("the prompt is empty", param="prompt")
    for text, what in ((prompt, "prompt"), (call.args.system, "--system")):
        streams.check_text(text or "", what)
    with open_session(call, "llm") as session:
        conversation = Conversation(session, call.args.system, call.args.max_tokens)
        if prompt is None:
            converse(conversation)
        else:
            conversation.say(prompt)
    return 0


def vision(call: Call) -> int:
    from edgeserve.api.limits import Limits
    from edgeserve.api.pictures.image import check_image

    data, name = Path(call.args.image).read_bytes(), call.args.image
    image = ImagePart(data, name, check_image(data, Limits(), name))
    parts = (image, TextPart(streams.check_text(call.args.prompt, "prompt")))
    with open_session(call, "vision") as session:
        answer(session, ChatRequest((Message("user", parts),), max_tokens=call.args.max_tokens))
    return 0


def answer(session: Asked, request: ChatRequest, said: list[str] | None = None) -> None:
    """Print the answer as it comes, and append its pieces to ``said``, also of an interrupted answer."""

    def take(event: ChatEvent) -> None:
        if isinstance(event, TokenEvent):
            print(event.text, end="", flush=True)
            if said is not None:
                said.append(event.text)
        elif isinstance(event, FinishEvent):
            print(flush=True)
            if event.reason == "length":
                print(f"(cut after {event.completion_tokens} tokens)", file=sys.stderr)

    session.ask(request, take)


class Conversation:
    """The messages so far; each turn sends all of them."""

    def __init__(self, session: Asked, system: str | None, max_tokens: int | None) -> None:
        self._session = session
        self._system = (Message("system", (TextPart(system),)),) if system else ()
        self._max_tokens = max_tokens
        self._turns: tuple[Message, ...] = ()

    def say(self, text: str) -> None:
        """One turn. An answer that Ctrl-C interrupted is kept; a turn without any answer is not."""
        turns = (*self._turns, Message("user", (TextPart(text),)))
        said: list[str] = []
        try:
            answer(self._session, ChatRequest(self._system + turns, max_tokens=self._max_tokens), said)
        finally:
            if said:
                self._turns = (*turns, Message("assistant", (TextPart("".join(said)),)))

    def reset(self) -> None:
        self._turns = ()


def converse(conversation: Conversation) -> None:
    """Read and answer lines until Ctrl-D or /exit."""
    import readline  # noqa: F401  gives input() its line editing and history

    print(HELP)
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            continue
        except UnicodeDecodeError:
            print("[ERROR] the line is not UTF-8 text", file=sys.stderr)
            continue
        if line == "/exit":
            return
        if line == "/reset":
            conversation.reset()
        elif line.startswith("/"):
            print(HELP)
        elif line:
            _turn(conversation, line)


def _turn(conversation: Conversation, line: str) -> None:
    try:
        conversation.say(streams.check_text(line, "the line"))
    except KeyboardInterrupt:
        print(" (stopped)")
    except EdgeserveError as error:
        # The conversation continues after an error, such as a full context.
        print(f"[ERROR] {error}", file=sys.stderr)
