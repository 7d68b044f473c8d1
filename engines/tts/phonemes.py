"""hibari's phonemizer for every family that reads the misaki alphabet: English text to phonemes, cut into pieces.

Its dictionaries are word tables in a folder beside the model, made on first use. They open fast, and their pages can be
dropped while the engine stays open.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import types
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from edgeserve.engine import ModelSpec
from edgeserve.engines.onnx import session as ort
from edgeserve.engines.tts import tables as tts_tables
from edgeserve.engines.tts.lean_import import without
from edgeserve.engines.tts.text import cut, normal
from edgeserve.engines.tts.word_table import WordTable
from edgeserve.errors import EngineFailure, InvalidRequest

VERSION = "0.2.1"
"""The version of hibari-tts whose parts are assembled here; other versions may differ (pyproject.toml)."""
TABLES = f"hibari-tts-{VERSION}"
"""Folder of the tables within the folder of prepared files."""
LEXICONS = {False: "lexicon_us", True: "lexicon_gb"}
"""Names of tables by accent; True is British."""
TABLE_BYTES = {"tagger": 4_963_304, "lexicon_us": 5_904_490, "lexicon_gb": 6_293_428}
LATEST_WEIGHTS = 256
"""Weights of the tagger's features that are kept as objects, half a megabyte: reading a text then takes less time."""
SHOWN = 60
"""Most characters of a text in an error's message."""


def load() -> None:
    """Import hibari and its runtime. Raises EngineFailure for a missing package or another version."""
    if importlib.util.find_spec("hibari") is None:
        raise EngineFailure("English voices need a phonemizer: pip install hibari-tts")
    with without("scipy.fft"):  # it would keep 9 MB, and NumPy computes the same as fast
        import hibari
    import hibari.g2p.oov
    import onnxruntime  # noqa: F401 - opens the phonemizer's net

    if hibari.__version__ != VERSION:
        raise EngineFailure(
            f"hibari-tts {hibari.__version__} is installed, this phonemizer needs {VERSION}: "
            f"pip install hibari-tts=={VERSION}"
        )


def table_names(accents: Collection[bool]) -> list[str]:
    """Tables that phonemizers of these accents (True: British) map; none without an accent."""
    return ["tagger", *(LEXICONS[british] for british in sorted(accents))] if accents else []


def mapped_bytes(accents: Collection[bool]) -> int:
    """Bytes that the phonemizers of these accents map from files."""
    return sum(TABLE_BYTES[name] for name in table_names(accents))


def table_files(folder: Path, accents: Collection[bool]) -> list[Path]:
    """Paths of the tables in ``folder``, made or not."""
    return [tts_tables.file_of(folder / TABLES, name) for name in table_names(accents)]


def tables(folder: Path, accents: Collection[bool]) -> Iterator[tuple[str, WordTable]]:
    """Names and tables, one by one. Each table is made if it does not exist. Raises EngineFailure."""
    load()
    for name in table_names(accents):
        with _assets() as assets:
            yield name, tts_tables.table(assets, name, folder / TABLES)


@contextlib.contextmanager
def _assets() -> Iterator[Path]:
    """The folder of the package's data. Raises EngineFailure when the block finds a file damaged."""
    import hibari

    assets = Path(hibari.__file__).parent / "assets"
    try:
        yield assets
    except (OSError, EOFError, KeyError, ValueError, zlib.error) as error:
        raise EngineFailure(
            f"hibari-tts in {assets.parent} is damaged ({error}): pip install --force-reinstall hibari-tts=={VERSION}"
        ) from error


class Phonemizers:
    """One phonemizer for each accent (True: British), all with one tagger. Raises EngineFailure.

    ``folder`` keeps the tables. ``mapped``: the files whose pages can be dropped.
    """

    def __init__(self, folder: Path, accents: Collection[bool]) -> None:
        found = dict(tables(folder, accents))
        with _assets() as assets:
            self._accents = {
                british: Phonemizer(assets, found["tagger"], found[LEXICONS[british]], british) for british in accents
            }
        self.mapped = [table.path for table in found.values() if table.path is not None]

    def __getitem__(self, british: bool) -> Phonemizer:
        return self._accents[british]


class ReadByHibari:
    """Base of the families with hibari's phonemes. A family separates the British voices from the American ones."""

    phonemizer_bytes = 4 << 20
    """Private memory of a phonemizer with its net, measured."""
    _phonemizers: Phonemizers

    @staticmethod
    def load(spec: ModelSpec) -> None:
        load()

    @classmethod
    def accents(cls, spec: ModelSpec) -> set[bool]:
        return {cls.british(voice) for voice in cls.voices(spec)}

    @staticmethod
    def voices(spec: ModelSpec) -> list[str]:
        raise NotImplementedError

    @staticmethod
    def british(voice: str) -> bool:
        raise NotImplementedError

    def pieces(self, text: str, voice: str, limit: int) -> Iterator[str]:
        return self._phonemizers[self.british(voice)].pieces(text, limit)


class Phonemizer:
    """Lexicon, tagger, and a small net for unknown words with a session of our own."""

    def __init__(self, assets: Path, tagger: WordTable, lexicon: WordTable, british: bool) -> None:
        self._ids: dict[str, int] = _json(assets / "vocab.json")
        self._phonemize = _assemble(assets, tagger, lexicon, british)

    def pieces(self, text: str, limit: int) -> Iterator[str]:
        """Phonemes in pieces of at most ``limit``, sentence by sentence; an empty piece for a part without phonemes.

        Raises InvalidRequest for text that the phonemizer cannot read.
        """
        for part in cut.parts(text, normal.spoken):
            yield from cut.sounding(self._read(part) if part else "", limit)

    def ids(self, phonemes: str) -> list[int]:
        """Ids of the phonemes in Kokoro's vocabulary, between two pads."""
        return [0, *(self._ids[char] for char in phonemes if char in self._ids), 0]

    def _read(self, part: str) -> str:
        try:
            return str(self._phonemize(part, normalize_text=False))
        except (EngineFailure, MemoryError):
            raise
        except Exception as error:  # of any class: the rules of the phonemizer fail on unforeseen text
            shown = part if len(part) <= SHOWN else f"{part[:SHOWN]}…"
            raise InvalidRequest(f"the phonemizer cannot read {shown!r}: {error!r}", param="text") from error


def _assemble(assets: Path, tagger: WordTable, lexicon: WordTable, british: bool) -> Any:
    """hibari's G2P, assembled as its constructor does, with word tables in place of dictionaries."""
    from hibari.g2p import G2P
    from hibari.g2p.lexicon import Lexicon
    from hibari.g2p.oov import OOV
    from hibari.g2p.tagger import Tagger
    from hibari.g2p.tokenize import Tokenizer

    net = assets / ("oov_gb.onnx" if british else "oov.onnx")
    session = types.SimpleNamespace(run=functools.partial(ort.run, ort.session(net, threads=1)))
    g2p = object.__new__(G2P)
    g2p.lexicon = Lexicon(lexicon["g"], lexicon["s"], british)
    latest = types.SimpleNamespace(get=functools.lru_cache(LATEST_WEIGHTS)(tagger["w"].get))
    g2p.tagger = Tagger({"tagdict": tagger["t"], "tags": tagger["a"].get(""), "weights": latest})
    g2p.tagger.vocab = tagger["f"]
    g2p.tokenizer = Tokenizer(_json(assets / "tokenizer_exceptions.json"))
    g2p._oov, g2p.unk, g2p.british = OOV(str(net), session), "", british
    return g2p


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
