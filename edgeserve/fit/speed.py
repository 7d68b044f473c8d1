"""Speeds of models on this machine, expected from four figures of the machine. Pure functions.

Sources:

- Decoding a token reads all weights once, from memory ("LLM inference speed of light", zeux.io, 2024), and multiplies
  each once. The slower of both decides, since the processor reads ahead. A share that does not grow with the model
  comes on top: synchronised threads, sampling, and text.
- Reading a prompt multiplies each weight with each token: two operations a weight (Kaplan et al., 2020, "Scaling Laws
  for Neural Language Models", 2.1). The token table is looked up, not multiplied.
- Whisper's encoder hears a window of 30 s as 1,500 positions (Radford et al., 2022).

The shares are measured on one thread of an EPYC with AVX-512 (docs/models.md).
"""

from __future__ import annotations

from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.models.entry import Entry

OPERATIONS = 2
"""Each weight takes a product and a sum for each token."""
PROMPT_SHARE = 0.8
"""Share of the operations of a large float32 product that a prompt reaches. Measured: 0.75 on 0.4 billion weights in
Q8_0, 0.79 on 1.1 billion in Q4_0; 0.3 on 0.1 billion in Q4_1, whose matrices are narrow."""
DECODE_SHARE = 0.35
"""The same share for a single token, where no chat model was timed. Measured: 0.36 in Q8_0, 0.33 in Q4_0."""
CONTEXT = 512
"""Tokens of the conversation that the speed is given for. Their keys and values are read with every token."""
KV_BYTES = 2
"""Bytes of one number in the KV cache, f16."""
WINDOW_SECONDS, WINDOW_POSITIONS = 30.0, 1500
"""A window of Whisper, and its positions in the encoder."""
SPOKEN_TOKENS = 120
"""Tokens of text in a window of dense speech: four a second."""
FRAMES = 12.5
"""Frames a second that the encoder of Parakeet computes after its stride of eight."""
SPEECH_SHARE = 0.21
"""The same share for the speech engines; measured with Whisper tiny.en in int8."""

Unit = Literal["tokens/s", "times real time"]


@dataclass(frozen=True, slots=True)
class Rates:
    """The machine.

    - ``bandwidth`` of memory in bytes/s. ``operations`` of a float32 product in 1/s.
    - ``weights``: that decoding multiplies, in 1/s; 0 where no chat model was timed.
    - ``token_seconds``: share of a token that does not grow with the model.
    """

    bandwidth: float
    operations: float
    weights: float = 0.0
    token_seconds: float = 0.0

    @property
    def decoded(self) -> float:
        """Weights a second that decoding multiplies, measured or expected."""
        return self.weights or DECODE_SHARE * self.operations / OPERATIONS


@dataclass(frozen=True, slots=True)
class Speed:
    """``answer`` in ``unit``. ``prompt`` in tokens/s; None where a model reads none."""

    answer: float
    unit: Unit
    prompt: float | None = None


def expected(entry: Entry, rates: Rates) -> Speed | None:
    """The speed of a catalogue model; None where nothing is known that it follows from."""
    if entry.job in ("llm", "vision"):
        return Speed(answers(entry, rates), "tokens/s", prompts(entry, rates))
    if entry.job == "asr":
        heard = hears(entry, rates)
        return None if heard is None else Speed(heard, "times real time")
    read = prompts(entry, rates) if entry.job not in ("tts", "speaker") else None
    return None if read is None else Speed(read, "tokens/s", read)


def answers(entry: Entry, rates: Rates) -> float:
    """Tokens a second that a language model writes."""
    read = bytes_of_token(entry) + CONTEXT * cached_bytes(entry)
    multiplied = entry.parameters - entry.shape.get("untied", 0) * table(entry)
    return 1 / (rates.token_seconds + max(read / rates.bandwidth, multiplied / rates.decoded))


def bytes_of_token(entry: Entry) -> int:
    """Bytes of weights that decoding one token reads: all but an input table that the output does not share."""
    weights = entry.sizes.get("model", entry.size_bytes - entry.sizes.get("mmproj", 0))
    if not entry.shape.get("untied") or not entry.parameters:
        return weights
    return int(weights * (1 - table(entry) / entry.parameters))


def cached_bytes(entry: Entry) -> int:
    """Bytes of the KV cache for each token of the context."""
    return entry.shape.get("layers", 0) * entry.shape.get("key_value_width", 0) * KV_BYTES


def table(entry: Entry) -> int:
    """Numbers in the token table."""
    return entry.shape.get("vocabulary", 0) * entry.shape.get("width", 0)


def prompts(entry: Entry, rates: Rates) -> float | None:
    """Tokens a second that a language model reads; None where its parameters are unknown."""
    multiplied = entry.parameters - (1 + entry.shape.get("untied", 0)) * table(entry)
    if not entry.parameters or multiplied <= 0:
        return None
    return PROMPT_SHARE * rates.operations / (OPERATIONS * multiplied)


def hears(entry: Entry, rates: Rates) -> float | None:
    """Seconds of dense speech that a transcription model hears in a second; None where its shape is unknown."""
    if not entry.parameters:
        return None
    if entry.options.get("family"):
        return SPEECH_SHARE * rates.operations / (OPERATIONS * entry.parameters * FRAMES)
    if not entry.shape:
        return None
    width, layers = entry.shape["width"], entry.shape["encoder_layers"]
    # A layer has 4 matrices of attention and 2 of the MLP, which is four times as wide: 12 × width².
    encoder = OPERATIONS * 12 * layers * width**2 * WINDOW_POSITIONS + 4 * layers * width * WINDOW_POSITIONS**2
    decoder = OPERATIONS * (entry.parameters - 12 * layers * width**2) * SPOKEN_TOKENS
    return SPEECH_SHARE * rates.operations * WINDOW_SECONDS / (encoder + decoder)
