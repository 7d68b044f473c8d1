"""``edgeserve talk``: a conversation by microphone and loudspeaker."""

from __future__ import annotations

import contextlib

from edgeserve.commands import Call
from edgeserve.commands.line import open_line
from edgeserve.commands.microphone import Microphone
from edgeserve.commands.own_server import serving
from edgeserve.commands.playback import Playback
from edgeserve.commands.player import Player
from edgeserve.commands.turns import Conversation, take_turns
from edgeserve.commands.voice import RATE, Voice
from edgeserve.errors import NotSupported
from edgeserve.system import streams

GREETING = "Speak; a pause ends what you say. Ctrl-C stops an answer, and ends the conversation otherwise."


def talk(call: Call) -> int:
    """Talk until Ctrl-C. Raises NotSupported without a microphone or a loudspeaker."""
    args, environ = call.args, call.environ
    system = streams.check_text(args.system or "", "--system")
    microphone = Microphone(environ, RATE)
    Player(environ)  # raises before anything is loaded
    with serving(call) as server, contextlib.ExitStack() as stack:
        try:
            line = stack.enter_context(open_line(server))
        except NotSupported as absent:
            print(f"{absent}: one turn after the other. {GREETING}", flush=True)
            take_turns(Conversation(server, environ, system, args.voice, args.language), Microphone(environ))
            return 0
        print(GREETING, flush=True)
        voice = Voice(line, Playback(lambda: Player(environ)), headphones=args.headphones)
        voice.begin(system, args.voice, args.language)
        voice.talk(microphone)
    return 0
