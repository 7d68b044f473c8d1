"""The end of one request, as its client saw it."""

from __future__ import annotations

import json
from dataclasses import dataclass

RIGHT, REFUSED, FAILED, LEFT, WRONG, HUNG = "right", "refused", "failed", "left", "wrong", "hung"
"""Verdicts.

right    the answer is the same as alone
refused  a whole answer of status 4xx or 5xx, with a code
failed   the answer had begun, and an error or the end of the connection cut it
left     the client went away
wrong    another answer, or a status that the request does not deserve
hung     no end within the limit
"""
CUT = "cut"
"""The code of an answer whose connection ended without a word."""
SENTENCE = "sentence"
"""Stands for the code of an error in Ollama's shape, which has none."""
BROKEN = 0
"""Stands for a status where none came."""


@dataclass(frozen=True, slots=True)
class Reply:
    """``began`` and ``ended`` in seconds on the clock of the run. ``status`` as in HTTP, or BROKEN. ``code`` of the
    error, or CUT. ``told``: its message, or the fault of a wrong answer."""

    kind: str
    job: str
    began: float
    ended: float
    status: int
    verdict: str
    code: str = ""
    told: str = ""

    @property
    def line(self) -> str:
        """For people."""
        what = f"{self.status} {self.code}".strip()
        seconds = self.ended - self.began
        return f"{self.ended:6.1f} s  {self.kind}: {self.verdict}, {what} after {seconds:.1f} s: {self.told}"


def told_in(body: bytes) -> tuple[str, str] | None:
    """Code and message of the error in a body, whole or streamed; None where it has none.

    An event of Responses has the error inside its response, or a null there.
    """
    for line in body.decode(errors="replace").split("\n"):  # splitlines would cut at U+0085 too
        if '"error"' in line and (found := _error(line.removeprefix("data: "))):
            return found
    return None


def _error(text: str) -> tuple[str, str] | None:
    try:
        told = json.loads(text)
        error = told.get("response", told)["error"]
        if isinstance(error, str):
            return SENTENCE, error
        return str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
