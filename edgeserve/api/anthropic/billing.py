"""The line about billing with which Claude Code begins its system text.

Part of the line changes with every request. A prompt that begins with it shares nothing with the prompts before it, so
that no cache can serve the 20,000 tokens behind it. The model does not need the line.
"""

from __future__ import annotations

import re

# "*+" and "++" never give a character back: a hostile text takes no more work than a plain one of its length.
LINE = re.compile(r"x-anthropic-billing-header:[^\S\n]*+(?:[\w-]++=[^;\n]*+;[^\S\n]*+)*+\n*+")
LONGEST = 4096
"""Characters of such a line. Each of its fields costs a search 200 bytes of memory."""


def without(text: str) -> str:
    """The text without such a line at its beginning."""
    found = LINE.match(text, 0, LONGEST)
    return text[found.end() :] if found else text
