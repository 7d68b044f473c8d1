"""Decoded frames of any rate, depth and number of channels into sound for engines, by FFmpeg's filters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from edgeserve.sound import INPUT_SAMPLE_RATE, PIECE_SECONDS

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.filter import Graph

Form = tuple[str, str, int]
SAMPLE_BYTES = 4


def mono(frames: Iterable[AudioFrame]) -> Iterator[bytes]:
    """float32 little-endian mono at 16 kHz, in pieces of PIECE_SECONDS. Samples may be out of range, or no numbers.

    A piece ends early when the form of the frames changes, as in joined files. Raises FFmpegError.
    """
    graph, form = None, None
    for frame in frames:
        if graph is None or form != form_of(frame):
            if graph is not None:
                yield from _pushed(graph, None)
            form = form_of(frame)
            graph = _graph(frame)
        frame.pts = None  # the number of samples counts, not the time
        yield from _pushed(graph, frame)
    if graph is not None:
        yield from _pushed(graph, None)


def form_of(frame: AudioFrame) -> Form:
    """Depth, channels and rate of a frame."""
    return frame.format.name, frame.layout.name, frame.sample_rate


def _graph(frame: AudioFrame) -> Graph:
    """A filter graph: the mean of all channels, since any may hold the voice, then the resampler."""
    import av

    depth, layout, rate = form_of(frame)
    channels = frame.layout.nb_channels
    mean = "+".join(f"{1 / channels:.9f}*c{channel}" for channel in range(channels))
    graph = av.filter.Graph()
    graph.link_nodes(
        graph.add("abuffer", sample_rate=str(rate), sample_fmt=depth, channel_layout=layout, time_base=f"1/{rate}"),
        graph.add("aformat", sample_fmts="fltp"),
        graph.add("pan", f"mono|c0={mean}"),
        graph.add("aformat", sample_fmts="flt", sample_rates=str(INPUT_SAMPLE_RATE)),
        graph.add("abuffersink"),
    ).configure()
    graph.set_audio_frame_size(PIECE_SECONDS * INPUT_SAMPLE_RATE)
    return graph


def _pushed(graph: Graph, frame: AudioFrame | None) -> Iterator[bytes]:
    """Pieces that this frame completes; None is the end of the sound."""
    import av

    graph.push(frame)
    while True:
        try:
            piece = cast("AudioFrame", graph.pull())
        except (av.error.BlockingIOError, av.error.EOFError):
            return
        # The plane is longer than its samples. NumPy would take a new decoder 0.1 s.
        yield bytes(memoryview(piece.planes[0])[: piece.samples * SAMPLE_BYTES])
