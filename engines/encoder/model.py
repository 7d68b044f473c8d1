"""An encoder on ONNX Runtime, before and while it is open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from edgeserve.engine import Footprint, ModelSpec
from edgeserve.engines.encoder.config import Shape, read_shape
from edgeserve.engines.encoder.options import read_options
from edgeserve.engines.encoder.tokens import Text, Tokens, vocabulary_bytes
from edgeserve.engines.onnx import session
from edgeserve.engines.onnx.note import Note
from edgeserve.engines.onnx.prepare import FOLDER, files_at_hand, prepared
from edgeserve.errors import EngineFailure

NUMBERS = {"tensor(int64)": "int64", "tensor(int32)": "int32"}
"""NumPy's names of the types that a graph may take tokens in."""
INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids", "position_ids"})
SESSION_BYTES = 5 << 19
"""Private memory of an open session, measured."""
LIVE_SCORES, LIVE_ROWS, LIVE_WIDE = 4, 8, 6
"""Arrays of one layer that are alive at once: [heads, tokens, tokens], [tokens, width], [tokens, feed forward].
Measured with texts of 64 to 512 tokens on all-MiniLM-L6-v2: at most 7% off (docs/decisions/0024-encoders.md)."""
FLOAT = 4


def prepare(spec: ModelSpec, tell: Callable[[int, int], None]) -> None:
    """Prepare the graph for this machine, once after a pull. ``tell`` gets the number done and the total."""
    files = EncoderFiles(spec)
    prepared(files.graph, data=files.data, device=spec.device)
    tell(1, 1)


class Encoder:
    """An open model. ``longest``: tokens of a text at most."""

    def __init__(self, path: Path, graph: Any, tokens: Tokens, longest: int) -> None:
        """Raises EngineFailure for a graph with other inputs than an encoder's."""
        self.path, self.tokens, self.longest = path, tokens, longest
        self._graph = graph
        self._inputs = {one.name: NUMBERS.get(one.type, "") for one in graph.get_inputs()}
        if "input_ids" not in self._inputs or not INPUTS.issuperset(self._inputs) or "" in self._inputs.values():
            text = f"takes {', '.join(self._inputs)}; an encoder takes tokens as input_ids, and with them at most"
            raise EngineFailure(f"{path}: {text} {', '.join(sorted(INPUTS - {'input_ids'}))}")

    def output(self, *names: str, rank: int) -> str:
        """The output of the first of these names that the graph has, else its first of this rank.

        Raises EngineFailure without one.
        """
        outputs = {one.name: len(one.shape or ()) for one in self._graph.get_outputs()}
        found = [name for name in names if name in outputs] or [name for name in outputs if outputs[name] == rank]
        if not found:
            raise EngineFailure(f"{self.path}: gives {', '.join(outputs)}; none is {' or '.join(names)}")
        return found[0]

    def run(self, text: Text, output: str) -> Any:
        """One output for one text, float32, without the axis of the batch. Raises EngineFailure."""
        import numpy

        # One text at a time: a graph in int8 scales the activations of a call together. A text's numbers would
        # depend on its neighbours.
        values = {
            "input_ids": text.tokens,
            "attention_mask": [1] * len(text.tokens),
            "token_type_ids": text.types,
            "position_ids": range(len(text.tokens)),
        }
        given = {name: numpy.array([values[name]], kind) for name, kind in self._inputs.items()}
        found = session.run(self._graph, [output], given, reuse=True)[0][0].astype(numpy.float32)
        if not numpy.isfinite(found).all():
            raise EngineFailure(f"{self.path}: {output} of a text holds no numbers; its file may be damaged")
        return found


class EncoderFiles:
    """Files: ``model`` (the graph), ``data`` (its weights, where they are apart), ``tokenizer`` and ``config``.

    An embedding model may have ``pooling``, the file 1_Pooling/config.json. Weights are mapped.
    """

    packages: Sequence[str] = ("tokenizers",)

    def __init__(self, spec: ModelSpec) -> None:
        """Raises ConfigError for an option that encoders do not have."""
        self.spec = spec
        self.options = read_options(spec.job, spec.options)
        self.mapped: tuple[Path, ...] = ()
        self._vocabulary: int | None = None

    @property
    def graph(self) -> Path:
        return self._file("model")

    @property
    def data(self) -> tuple[Path, ...]:
        return (self.spec.files["data"],) if "data" in self.spec.files else ()

    def open(self) -> Encoder:
        shape, tokens = read_shape(self._file("config")), Tokens(self._file("tokenizer"))
        ready = prepared(self.graph, data=self.data, device=self.spec.device)
        graph = ready.session(threads=self.spec.threads, device=self.spec.device, reuse=True)
        encoder = Encoder(self.graph, graph, tokens, self._longest(shape))
        self.mapped = ready.data
        return encoder

    def close(self) -> None:
        self.mapped = ()

    def estimate(self) -> Footprint:
        """Mapped weights, tokenizer and session, and the activations of the longest text."""
        shape = read_shape(self._file("config"))
        tokens = self._longest(shape)
        row = LIVE_ROWS * shape.width + LIVE_WIDE * shape.feed_forward
        activations = FLOAT * tokens * (LIVE_SCORES * shape.heads * tokens + row)
        if self._vocabulary is None:
            self._vocabulary = vocabulary_bytes(self._file("tokenizer"))
        return Footprint(self._resident(shape), SESSION_BYTES + self._vocabulary, activations)

    def _resident(self, shape: Shape) -> int:
        """Bytes of the weights that a run reads."""
        files = [path for path in files_at_hand(self.graph, self.data) if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        note = Note.read(files[0].parent) if files else None
        if note is None or note.form != "prepacked":
            return size
        # A prepacked file holds the matrices twice, and the table of tokens once.
        return (size + min(size, FLOAT * shape.vocabulary * shape.width)) // 2

    def prefetch_files(self) -> Iterable[Path]:
        """The graph as prepared rather than as pulled."""
        if "model" not in self.spec.files:
            return self.spec.files.values()
        small = [path for role, path in self.spec.files.items() if role not in ("model", "data")]
        return [*small, *files_at_hand(self.graph, self.data)]

    def folders(self) -> Iterable[Path]:
        return {self.graph.parent / FOLDER} if "model" in self.spec.files else ()

    def _longest(self, shape: Shape) -> int:
        return min(self.options.context or shape.positions, shape.positions)

    def _file(self, role: str) -> Path:
        """Raises EngineFailure for a model without it."""
        if role not in self.spec.files:
            raise EngineFailure(f"{self.spec.name} has no file {role!r}; pull it again")
        return self.spec.files[role]
