"""Saved states in files: those that memory has no room for, and those of a closed engine. One state a file.

A file has a header, the tokens, and the state as llama.cpp wrote it. The index reads the headers and tokens only. A
file appears whole or not at all. Broken files and those of another model, setting or release are removed.

The files hold conversations, so only the owner of the folder can read it.
"""

from __future__ import annotations

import array
import contextlib
import hashlib
import json
import logging
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engines.llama.bindings import version
from engines.llama.cache import SavedState, StateCache
from engines.llama.options import LlamaOptions

log = logging.getLogger("edgeserve.llama")

HEAD = struct.Struct("<8s32s32sIIIQ")
"""Magic, key, hash of the salt, checksum of that hash and the tokens, number of tokens, checksum and bytes of the
state."""
MAGIC = b"edgekv02"
SUFFIX, PART = ".state", ".part"
MOST_TOKENS = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class StoredState:
    """A state in a file. ``size``: bytes of the file; ``salt``: the hash of the salt, in hexadecimal."""

    path: Path
    tokens: Sequence[int]
    size: int
    salt: str


class StateFiles(StateCache[StoredState]):
    """States in ``folder``, at most ``limit`` bytes of files. The first write makes the folder.

    ``key``: see ``states_key``. Methods block for the disk; an error of the disk costs the state, and never raises.
    """

    def __init__(self, folder: Path, limit: int, key: bytes, *, whole: bool = False) -> None:
        super().__init__(limit, whole=whole)
        self._folder = folder
        self._key = key
        self._indexed = False

    def longest(self, tokens: Sequence[int], salt: str = "") -> tuple[StoredState | None, int]:
        self._index()
        return super().longest(tokens, self._hashed(salt).hex())

    def read(self, state: StoredState) -> bytearray | None:
        """The data of a state, marked as used. None when the file is gone or broken; the state is dropped then."""
        try:
            with state.path.open("rb") as file:
                head = HEAD.unpack(file.read(HEAD.size))
                count, checksum, size = head[4:]
                if HEAD.size + 4 * count + size != state.size:
                    raise ValueError("its size is wrong")
                data = bytearray(size)
                file.seek(count * 4, os.SEEK_CUR)
                whole = file.readinto(data) == len(data) and zlib.crc32(data) == checksum
            if not whole:
                raise ValueError("the checksum is wrong")
        except (OSError, ValueError, struct.error, MemoryError) as error:
            log.warning("%s cannot be read (%s); removed", state.path, error)
            self._drop(state)
            return None
        self.touch(state)
        return data

    def touch(self, state: StoredState) -> None:
        super().touch(state)
        # The next read reports a missing file. By descriptor, since a confined worker may change no file by its name.
        with contextlib.suppress(FileNotFoundError), state.path.open("rb") as file:
            os.utime(file.fileno())

    def write(self, state: SavedState) -> bool:
        """Keep a state. False when there is no room, or the disk refuses."""
        salt = self._hashed(state.salt)
        known, length = self.longest(state.tokens, state.salt)
        if known is not None and length == len(state.tokens):
            self.touch(known)
            return True
        tokens = array.array("i", state.tokens)
        size = HEAD.size + tokens.itemsize * len(tokens) + state.size
        if not self._make_room(state.tokens, size, salt.hex()):
            return False
        name = hashlib.sha256(self._key + salt + tokens.tobytes()).hexdigest()[:32] + SUFFIX
        stored = StoredState(self._folder / name, tokens, size, salt.hex())
        return self._store(stored, tokens.tobytes(), state) and self.add(stored)

    def _hashed(self, salt: str) -> bytes:
        """The hash of a salt, which stands for it in files: the salt itself may be derived from a key of the API."""
        return hashlib.sha256(self._key + salt.encode()).digest()

    def _store(self, stored: StoredState, tokens: bytes, state: SavedState) -> bool:
        """Write the file under another name, then rename it. False when the disk refuses."""
        part = stored.path.with_suffix(f".{os.getpid()}{PART}")
        sums = _checksum(bytes.fromhex(stored.salt), tokens), len(stored.tokens), zlib.crc32(state.data), state.size
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _make_private(self._folder)
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(HEAD.pack(MAGIC, self._key, bytes.fromhex(stored.salt), *sums))
                file.write(tokens)
                file.write(state.data)
            os.replace(part, stored.path)
        except OSError as error:
            log.warning("a conversation's state of %d MB cannot be kept on disk: %s", state.size >> 20, error)
            _remove(part)
            return False
        return True

    def _drop(self, state: StoredState) -> None:
        super()._drop(state)
        _remove(state.path)

    # The index

    def _index(self) -> None:
        """Read the headers of all files, once."""
        if self._indexed:
            return
        self._indexed = True
        for _, state in sorted(self._found(), key=lambda one: one[0]):
            self._states.append(state)
            self.size += state.size
        self.shrink(self.limit)

    def _found(self) -> Iterator[tuple[float, StoredState]]:
        """States with the time of their last use. Removes unfinished, foreign and broken files."""
        try:
            paths = [path for path in self._folder.iterdir() if path.suffix in (SUFFIX, PART)]
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("the states in %s cannot be read: %s", self._folder, error)
            return
        for path in paths:
            try:
                if path.suffix == PART:
                    raise ValueError("left by a write that was cut short")
                yield path.stat().st_mtime, StoredState(path, *self._head(path))
            except (OSError, ValueError, struct.error) as error:
                log.info("%s is of no use here (%s); removed", path, error)
                _remove(path)

    def _head(self, path: Path) -> tuple[Sequence[int], int, str]:
        """Tokens, size and salt of a file. Raises OSError, ValueError or struct.error."""
        with path.open("rb") as file:
            magic, key, salt, tokens_sum, count, _, data = HEAD.unpack(file.read(HEAD.size))
            if magic != MAGIC or key != self._key:
                raise ValueError("made by another model, release or setting")
            tokens = array.array("i")
            tokens.frombytes(file.read(min(count, MOST_TOKENS) * tokens.itemsize))
            size = os.fstat(file.fileno()).st_size
        if _checksum(salt, tokens.tobytes()) != tokens_sum or size != HEAD.size + tokens.itemsize * count + data:
            raise ValueError("incomplete or damaged")
        return tokens, size, salt.hex()


def states_key(model: Path, options: LlamaOptions) -> bytes:
    """A hash of all that a state depends on. Raises OSError when there is no such model."""
    about = model.stat()
    made = (options.kv_type, options.flash_attention, options.window, version())
    return hashlib.sha256(json.dumps([model.name, about.st_size, about.st_mtime_ns, *made]).encode()).digest()


def _checksum(salt: bytes, tokens: bytes) -> int:
    return zlib.crc32(tokens, zlib.crc32(salt))


def _make_private(folder: Path) -> None:
    """Let only the owner read the folder. By descriptor, since a confined worker may change no mode by name."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error)
