"""Times of words: dynamic time warping over the attention of the alignment heads (openai/whisper timing.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from edgeserve.engines.asr.whisper.graphs import Graphs
from edgeserve.engines.asr.whisper.vocabulary import SECONDS_PER_TIMESTAMP, Vocabulary
from edgeserve.messages import Word

MEDIAN_WIDTH = 7
UNSPACED = {"zh", "ja", "th", "lo", "my", "yue"}
"""Languages written without spaces. Each of their tokens that is whole characters counts as a word."""


def time_words(
    graphs: Graphs, audio: dict[str, Any], vocabulary: Vocabulary, language: str, tokens: Sequence[int], frames: int
) -> list[tuple[Word, int]]:
    """Words of one window's text tokens, each with its number of tokens. Times count from the window's start.

    ``frames``: the number of the window's mel frames that hold audio.
    """
    import numpy

    if not tokens:
        return []
    rows, columns = path(graphs, audio, vocabulary, language, tokens, frames)
    jumps = numpy.diff(rows, prepend=-1) > 0
    times = columns[jumps] * SECONDS_PER_TIMESTAMP
    timed, at = [], 0
    for text, count in split_words(tokens, vocabulary, language):
        timed.append((Word(float(times[at]), float(times[at + count]), text), count))
        at += count
    return timed


def path(
    graphs: Graphs, audio: dict[str, Any], vocabulary: Vocabulary, language: str, tokens: Sequence[int], frames: int
) -> tuple[Any, Any]:
    """The alignment of tokens and audio: row (token, then the end) and column (20 ms of the window) of each step."""
    import numpy

    head = vocabulary.prompt(language, (), 1)
    sequence = [*head, vocabulary.no_timestamps, *tokens, vocabulary.end]
    weights = graphs.align(sequence, audio)[:, :, : max(1, frames // 2)]
    clearest = numpy.zeros(weights.shape[1:], numpy.float32)
    for one in weights:  # one by one: the filter takes seven times the memory of its input
        clearest += _clear(one)
    return warp(-(clearest / len(weights))[len(head) : -1])


def _clear(weights: Any) -> Any:
    """One head's attention [tokens, frames], normalised over the tokens of each frame, then smoothed."""
    import numpy

    weights = weights / numpy.maximum(weights.sum(axis=-1, keepdims=True), 1e-9)
    weights = (weights - weights.mean(axis=0)) / (weights.std(axis=0) + 1e-9)
    return _median(weights)


def split_words(tokens: Sequence[int], vocabulary: Vocabulary, language: str) -> Iterator[tuple[str, int]]:
    """Words, each with its number of tokens. A word begins at a space; bytes of one character stay together."""
    word: list[int] = []
    for token in tokens:
        text = vocabulary.decode([token])
        begins = text.startswith(" ") or (language in UNSPACED and "\ufffd" not in vocabulary.decode(word))
        if word and begins:
            yield vocabulary.decode(word), len(word)
            word = []
        word.append(token)
    if word:
        yield vocabulary.decode(word), len(word)


def _median(weights: Any) -> Any:
    """Median filter along the last axis."""
    import numpy

    edge = MEDIAN_WIDTH // 2
    if weights.shape[-1] <= edge:
        return weights
    padded = numpy.pad(weights, ((0, 0), (edge, edge)), mode="reflect")
    return numpy.median(numpy.lib.stride_tricks.sliding_window_view(padded, MEDIAN_WIDTH, axis=-1), axis=-1)


def warp(costs: Any) -> tuple[Any, Any]:
    """The cheapest monotone path through costs [rows, columns]: the rows and the columns of its steps."""
    import numpy

    height, width = costs.shape
    total = numpy.full((height + 1, width + 1), numpy.inf)
    total[0, 0] = 0.0
    moves = numpy.zeros((height + 1, width + 1), numpy.int8)
    for row in range(1, height + 1):
        above, here = total[row - 1], total[row]
        # The whole row moves down or diagonally at once. Moves to the right go one by one: each needs the one before.
        best = numpy.minimum(above[:-1], above[1:])
        moves[row, 1:] = numpy.where(above[:-1] <= above[1:], 0, 1)
        line = costs[row - 1]
        left = numpy.inf
        for column in range(width):
            cheapest = best[column]
            if left < cheapest:
                cheapest = left
                moves[row, column + 1] = 2
            left = cheapest + line[column]
            here[column + 1] = left
    path = []
    row, column = height, width
    while row > 0 and column > 0:
        path.append((row - 1, column - 1))
        move = moves[row, column]
        row, column = row - (move != 2), column - (move != 1)
    steps = numpy.array(path[::-1])
    return steps[:, 0], steps[:, 1]
