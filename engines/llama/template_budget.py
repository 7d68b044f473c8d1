"""The budget of rendering a Jinja template: steps, text and seconds. Rendering beyond it ends.

A chat template comes with a model, and a request drives its loops. A trace function counts the steps of the rendering
thread: lines of the template and calls of Python functions. Some operations alone could take any memory or
time: repeat or join texts, raise to a power, pad to a width. Guards check these before they run.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

STEPS = 500_000
"""Steps of one render. A conversation of 1,000 messages takes 5,000 to 50,000."""
SECONDS = 10.0
"""Processor time of one render."""
CHECK_EVERY = 256
"""Steps between two readings of the clock."""
TEXT = 4 << 20
"""Characters of one text that a render makes, in addition to four times its input."""
TEXTS = 16
"""Limit of all texts of a render, as a multiple of the limit of one text."""
WIDTH, INDENT, BITS = 10_000, 16, 1 << 20
"""Largest width to pad to, largest indent of JSON, and bits of the largest number."""
PERCENT = re.compile(r"%[-+ #0-9.]*(?:\*|[0-9]{5})")
BRACES = re.compile(r"\{[^{}]*\{|:[^{}]*[0-9]{5}")
"""PERCENT and BRACES match formats (``%`` and ``str.format``) whose width is another value, or above 9,999."""
PADDING = frozenset(("center", "ljust", "rjust", "zfill", "expandtabs", "to_bytes"))
PADDING |= frozenset(("indent", "wordwrap", "truncate", "batch", "slice", "round"))
GUARDED = ("center", "indent", "wordwrap", "truncate", "batch", "slice", "round", "format", "replace", "join")
"""Filters whose result may be longer than their input."""


class OverBudget(Exception):
    """A render takes more than its budget."""


class Budget:
    """The budget of one render. ``given``: characters of its input."""

    def __init__(
        self, given: int, *, steps: int = STEPS, seconds: float = SECONDS, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._steps = self._left = steps
        self._seconds, self._clock, self._end = seconds, clock, clock() + seconds
        self._most = TEXT + 4 * given
        self._texts = TEXTS * self._most

    def step(self, frame: FrameType, event: str, argument: object) -> Any:
        """The trace function: counts lines of templates, and all calls."""
        self._left -= 1
        if self._left < 0 or not self._left % CHECK_EVERY:
            self.spend(0)
        return self.step if frame.f_code.co_filename == "<template>" else None

    def spend(self, steps: int) -> None:
        """Count steps. Raises OverBudget."""
        self._left -= steps
        if self._left < 0:
            raise OverBudget(f"it takes more than {self._steps} steps")
        if self._clock() > self._end:
            raise OverBudget(f"it takes longer than {self._seconds:g} seconds")

    def make(self, length: int) -> None:
        """Count a text or a list that is about to be made. Raises OverBudget."""
        self._texts -= length
        if length > self._most:
            raise OverBudget(f"it makes a text of {length} characters; the limit is {self._most}")
        if self._texts < 0:
            raise OverBudget(f"it makes more than {TEXTS * self._most} characters of text")


class Guards:
    """The checks of a template's environment against the budget of the thread's render. They raise OverBudget."""

    current: threading.local

    @property
    def budget(self) -> Budget:
        """The budget of this thread's render. Constants are computed at compile time, under a budget of their own."""
        found: Budget | None = getattr(self.current, "budget", None)
        return found if found is not None else Budget(0)

    def render(self, template: Any, variables: Mapping[str, Any], budget: Budget) -> str:
        """Render a template under a budget. Raises OverBudget, and any error of the template."""
        before = sys.gettrace()
        self.current.budget = budget
        sys.settrace(budget.step)
        try:
            return self.joined(template.root_render_func(template.new_context(dict(variables))))
        finally:
            sys.settrace(before)
            self.current.budget = None

    def joined(self, parts: Iterable[Any]) -> str:
        """Join the parts as texts."""
        texts = [one if type(one) is str else str(one) for one in parts]
        self.budget.make(sum(map(len, texts)))
        return "".join(texts)

    def check_operator(self, operator: str, left: Any, right: Any) -> None:
        if operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
            self.budget.make(len(left) + len(right))
        elif operator == "%" and isinstance(left, str | bytes):
            self.check_format(PERCENT, left)
        elif operator == "*":
            for one, times in ((left, right), (right, left)):
                if hasattr(one, "__len__") and isinstance(times, int):
                    self.budget.make(len(one) * max(0, times))
        if operator in ("*", "**") and isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * abs(right) if operator == "**" else left.bit_length() + right.bit_length()
            if bits > BITS:
                raise OverBudget(f"it computes a number of {bits} bits")

    def check_method(self, text: str | bytes, name: str, arguments: tuple[Any, ...]) -> None:
        if name in PADDING:
            check_widths(arguments)
        elif name == "replace":
            self.check_replace(text, *arguments[:2])
        elif name == "join":
            self.budget.make(len(text) * _length(*arguments[:1]))
        elif name == "translate":
            raise OverBudget("it translates characters, which this server does not do")

    def check_filter(self, name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        if name in PADDING:
            check_widths((*arguments[1:], *named.values()))
            if name == "indent":
                widths = [one for one in (*arguments[1:], *named.values()) if isinstance(one, int)]
                self.budget.make(max([4, *widths]) * str(arguments[0]).count("\n"))
        elif name == "format":
            self.check_format(PERCENT, arguments[0])
        elif name == "replace":
            self.check_replace(arguments[0], *arguments[1:3])
        elif name == "join":
            between = named.get("d", arguments[1] if len(arguments) > 1 else "")
            self.budget.make(len(str(between)) * _length(*arguments[:1]))

    def check_format(self, widths: re.Pattern[str], form: Any) -> None:
        if widths.search(str(form).replace("{{", "").replace("}}", "")):
            raise OverBudget(f"it formats to a width of another value, or of more than {WIDTH - 1}")

    def check_replace(self, text: Any, old: Any = "", new: Any = "") -> None:
        text = text if isinstance(text, str | bytes) else str(text)
        old, new = (one if isinstance(one, type(text)) else str(one) for one in (old, new))
        self.budget.make(len(text) + text.count(old) * len(new))

    def range(self, *bounds: int) -> range:
        found = range(*bounds)
        self.budget.spend(len(found))
        return found

    def guarded(self, name: str, one: Callable[..., Any]) -> Callable[..., Any]:
        """The filter ``one`` with a check before it runs."""
        first = 1 if hasattr(one, "jinja_pass_arg") else 0

        def run(*arguments: Any, **named: Any) -> Any:
            self.check_filter(name, arguments[first:], named)
            return one(*arguments, **named)

        run.__dict__.update(one.__dict__)  # attributes by which Jinja decides how to call it
        return run


def check_widths(arguments: Iterable[Any]) -> None:
    for one in arguments:
        if isinstance(one, int) and abs(one) > WIDTH:
            raise OverBudget(f"it pads to {one} characters; the limit is {WIDTH}")


def check_indent(indent: Any) -> None:
    """Check the indent of JSON, which may have a line for each character. Raises OverBudget."""
    if _length(indent) > INDENT or (isinstance(indent, int) and indent > INDENT):
        raise OverBudget(f"it indents JSON by more than {INDENT}")


def characters(value: Any) -> Iterator[int]:
    """Lengths of all texts in nested lists and objects."""
    if isinstance(value, str):
        yield len(value)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from characters(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from characters(one)


def _length(value: Any = ()) -> int:
    return len(value) if hasattr(value, "__len__") else 0
