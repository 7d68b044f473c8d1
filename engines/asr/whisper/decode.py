"""The decode loop: the next token of several windows in one step, each window with its own text and temperature."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engine import Cancel
from edgeserve.engines.asr.whisper.graphs import MAX_POSITIONS, Audio, Graphs, Past
from edgeserve.engines.asr.whisper.vocabulary import Vocabulary, constrain
from edgeserve.errors import Cancelled

GREEDY = 1e-4
"""Temperatures below this choose the likeliest token: dividing by the smallest of them would overflow."""
MayEnd = Callable[[Sequence[int]], bool]
"""Whether a text of these tokens may end."""
CANCELLED = "the request was cancelled while the audio was transcribed"


@dataclass(frozen=True, slots=True)
class Decoded:
    """One window's tokens, with timestamps, and the figures that the result is judged by."""

    tokens: tuple[int, ...]
    temperature: float
    avg_logprob: float
    no_speech_prob: float


@dataclass(slots=True)
class _Text:
    """The text of one window so far.

    - length: positions taken by prompt and tokens
    - total: log chances of the tokens
    - held: the text continued behind an end that came too early
    """

    temperature: float
    length: int
    limit: int
    no_speech: float
    random: Any
    may_end: MayEnd
    held: bool = False
    said: list[int] = field(default_factory=list)
    total: float = 0.0

    def decoded(self) -> Decoded:
        return Decoded(tuple(self.said), self.temperature, self.total / (len(self.said) + 1), self.no_speech)


class Batch:
    """Windows that are decoded together. Each has a place; places are numbered from 0 without a gap.

    The texts of the windows differ in length. Their caches of keys and values end together: the last column belongs to
    the last token of each window. A mask hides the columns before a window's first token.

    A place keeps its window when its text ends, until another window is listened to there or the place is removed.
    """

    def __init__(self, graphs: Graphs, vocabulary: Vocabulary, places: int, cancel: Cancel) -> None:
        self._graphs, self._vocabulary, self._cancel = graphs, vocabulary, cancel
        self._audio = graphs.places(places)
        self._texts: list[_Text] = []
        self._past: Past = {}

    def audio(self, place: int) -> Audio:
        """The keys and values of one window. Valid until a window is listened to or removed."""
        return {name: array[place : place + 1] for name, array in self._audio.items()}

    def listen(self, place: int, mel: Any) -> None:
        """Encode a window, features [1, bands, 3000], into a place. Raises Cancelled before."""
        self._check()
        self._graphs.listen(mel, self.audio(place))

    def begin(self, place: int, prompt: Sequence[int], temperature: float, may_end: MayEnd = lambda said: True) -> None:
        """Begin the text of a window at its place, which has none yet or an ended one. Raises Cancelled before.

        Greedy at temperatures near 0, else sampled with a fixed seed. Where the model ends a text that may not end yet,
        the text continues once.
        """
        import numpy

        self._check()
        vocabulary = self._vocabulary
        start = len(prompt) - 1 - list(reversed(prompt)).index(vocabulary.start)
        logits, past = self._graphs.begin(prompt, [start, len(prompt) - 1], self.audio(place))
        limit = min(MAX_POSITIONS // 2, MAX_POSITIONS - len(prompt))
        no_speech = float(_softmax(logits[0])[vocabulary.no_speech])
        text = _Text(temperature, len(prompt), limit, no_speech, numpy.random.default_rng(0), may_end)
        self._texts[place : place + 1] = [text]
        self._say(text, logits[1])
        self._put(place, past)

    def step(self) -> list[tuple[int, Decoded]]:
        """Decode one token of each window; returns the places whose texts end, highest first, with the texts.

        Each of these places must begin anew or be removed before the next step. Raises Cancelled before.
        """
        import numpy

        self._check()
        lengths = numpy.array([text.length for text in self._texts], numpy.int64)[:, None]
        logits, self._past = self._graphs.step(
            [text.said[-1:] for text in self._texts],
            lengths,
            self._mask(lengths),
            [0],
            self._past,
            {name: array[: len(self._texts)] for name, array in self._audio.items()},
        )
        ended = []
        for place, text in enumerate(self._texts):
            text.length += 1
            if self._say(text, logits[place, 0]):
                ended.append((place, text.decoded()))
        return ended[::-1]

    def remove(self, place: int) -> None:
        """Remove an ended window. The window at the last place moves to its place."""
        last = len(self._texts) - 1
        if place < last:
            for array in self._audio.values():
                array[place] = array[last]
            self._texts[place] = self._texts[last]
        del self._texts[last]
        past, self._past = _arrays(self._past), {}
        if self._texts:
            for name, array in past.items():
                array[place] = array[last]
                self._past[name] = array[:last]
        self._shorten()

    def end(self) -> None:
        """Forget all windows."""
        self._texts, self._past, self._audio = [], {}, {}

    def _check(self) -> None:
        if self._cancel.is_set():
            raise Cancelled(CANCELLED)

    def _say(self, text: _Text, row: Any) -> bool:
        """Choose the next token. True at the end of the text, and where it is as long as it may be."""
        constrain(row, text.said, self._vocabulary)
        token = _choose(row, text)
        if token == self._vocabulary.end and not text.held and not text.may_end(text.said):
            text.held = True
            row[token] = -math.inf
            token = _choose(row, text)
        text.total += float(row[token] - _log_sum(row))
        if token == self._vocabulary.end:
            return True
        text.said.append(token)
        return len(text.said) >= text.limit

    def _mask(self, lengths: Any) -> Any:
        import numpy

        total = _columns(self._past)
        mask = numpy.zeros((len(lengths), 1, 1, total + 1), numpy.float32)
        if (lengths < total).any():
            mask[numpy.arange(total + 1) < total - lengths[:, :, None, None]] = -numpy.inf
        return mask

    def _put(self, place: int, past: Past) -> None:
        """Put the cache of one window in its place, or behind the last one."""
        import numpy

        if not self._past:
            self._past = past
            return
        before, past = _arrays(self._past), _arrays(past)
        count = max(place + 1, len(next(iter(before.values()))))
        total = max(_columns(before), _columns(past))
        self._past = {}
        for name, array in past.items():
            axis = _axis(name)
            shape = [count, *array.shape[1:]]
            shape[axis] = total
            joined = numpy.zeros(shape, numpy.float32)
            _last(joined, axis, before[name].shape[axis])[: len(before[name])] = before[name]
            joined[place] = 0
            _last(joined, axis, array.shape[axis])[place] = array[0]
            self._past[name] = joined
        self._shorten()

    def _shorten(self) -> None:
        """Drop the columns that no window needs any more."""
        import numpy

        needed = max((text.length for text in self._texts), default=0)
        if not needed:
            self._past = {}
        elif needed < _columns(self._past):
            past = _arrays(self._past)
            self._past = {name: numpy.ascontiguousarray(_last(one, _axis(name), needed)) for name, one in past.items()}


def _axis(name: str) -> int:
    """The axis of a cache that grows with the text: keys lie turned (edgeserve/models/convert/whisper.py)."""
    return 3 if name.startswith("past_k") else 2


def _columns(past: Past) -> int:
    name, one = next(iter(past.items()))
    shape = one.shape() if callable(one.shape) else one.shape  # a value of the runtime, or an array
    return int(shape[_axis(name)])


def _arrays(past: Past) -> dict[str, Any]:
    """The caches as arrays; values of the runtime are copied."""
    return {name: one.numpy() if hasattr(one, "numpy") else one for name, one in past.items()}


def _last(array: Any, axis: int, count: int) -> Any:
    """A view of the last ``count`` columns."""
    first = array.shape[axis] - count
    return array[..., first:] if axis == 3 else array[:, :, first:]


def _softmax(row: Any) -> Any:
    import numpy

    exponents = numpy.exp(row - row.max())
    return exponents / exponents.sum()


def _log_sum(row: Any) -> Any:
    import numpy

    highest = row.max()
    return highest + numpy.log(numpy.exp(row - highest).sum())


def _choose(row: Any, text: _Text) -> int:
    return int(row.argmax()) if text.temperature < GREEDY else _draw(row, text.temperature, text.random)


def _draw(row: Any, temperature: float, random: Any) -> int:
    return int(random.choice(len(row), p=_softmax(row.astype("float64") / temperature)))
