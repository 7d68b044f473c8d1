"""Saved states in files: those that memory has no room for, and those of a closed engine. One state a file.

A file has a header, the tokens, and the state as llama.cpp wrote it. The index reads the headers and tokens only.
Broken files are removed. Those of another model, setting or release stay until the bound or their age costs them:
another server may use them.

The files hold conversations in clear, so only the owner of the folder can read it.
"""

from __future__ import annotations

import array
import contextlib
import hashlib
import json
import logging
import os
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama.bindings import version
from edgeserve.engines.llama.cache import SavedState
from edgeserve.engines.llama.fingerprint import fingerprint
from edgeserve.engines.llama.options import LlamaOptions
from edgeserve.engines.llama.state_files import KEPT, SUFFIX, owner_of
from edgeserve.engines.llama.state_index import StateIndex, scope_of
from edgeserve.engines.llama.states_folder import StatesFolder, remove
from edgeserve.errors import DiskFull, InvalidRequest, NotFound
from edgeserve.system import headroom

log = logging.getLogger("edgeserve.llama")

HEAD = struct.Struct("<8s32s32sIIIQ")
"""Magic, key, hash of the salt, checksum of that hash and the tokens, number of tokens, checksum and bytes of the
state."""
MAGIC = b"edgekv02"
MOST_TOKENS = 1 << 24
AHEAD = 1 << 20
"""Bytes to read ahead at a time."""
WORTH_STORING = 64
"""Tokens. To decode fewer again takes a second at most, and the disk is spared."""


class Foreign(ValueError):
    """A state of another model, release or setting, which may be of use to another server."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredState:
    """A state in a file. ``size``: bytes of the file; ``salt``: the hash of the salt, in hexadecimal."""

    path: Path
    tokens: Sequence[int]
    size: int
    salt: str


class StateFiles(StateIndex[StoredState]):
    """States of at least ``worth`` tokens in ``folder``. The first write makes the folder.

    ``key``: see ``states_key``. Methods block for the disk; an error of the disk costs the state, and never raises. One
    thread reads, another one may write meanwhile, and any thread may call ``keep`` and ``kept``.
    """

    def __init__(self, folder: StatesFolder, key: bytes, *, whole: bool = False, worth: int = WORTH_STORING) -> None:
        super().__init__(whole=whole)
        self._folder = folder
        self._key = key
        self._worth = worth
        self._indexed = self._refused = False
        self._lock = threading.RLock()
        """Guards the index. No state is read or written under it."""

    @property
    def limit(self) -> int:
        return self._folder.limit

    @property
    def limits_writes(self) -> bool:
        return self._folder.limits_writes

    def spares(self, size: int) -> bool:
        return self._folder.spares(size)

    def longest(self, tokens: Sequence[int], salt: str = "") -> tuple[StoredState | None, int]:
        with self._lock:
            self._index()
            return super().longest(tokens, self._hashed(salt).hex())

    def read(self, state: StoredState) -> bytearray | None:
        """The data of a state, marked as used. None while memory has no room for it.

        None too when the file is gone or broken; the state is dropped then.
        """
        try:
            with state.path.open("rb") as file:
                data = _data(file, state.size)
                _stamp(file)
        except FileNotFoundError:  # another thread or process needed the room
            self.drop(state)
            return None
        except MemoryError as error:
            log.warning("%s is not read: %s", state.path, str(error) or "memory is short")
            return None
        except (OSError, ValueError, struct.error) as error:
            log.warning("%s cannot be read (%s); removed", state.path, error)
            self.drop(state)
            return None
        with self._lock:
            super().touch(state)
        return data

    def read_ahead(self, state: StoredState) -> None:
        """Bring a file into the system's cache, so that ``read`` takes the time of memory. Any thread."""
        with contextlib.suppress(OSError), state.path.open("rb", buffering=0) as file:  # ``read`` tells of the error
            piece = bytearray(AHEAD)
            while file.readinto(piece):
                pass

    def touch(self, state: StoredState) -> bool:
        try:
            with state.path.open("rb") as file:
                _stamp(file)
        except OSError:
            self.drop(state)
            return False
        with self._lock:
            return super().touch(state)

    def drop(self, state: StoredState) -> None:
        with self._lock:
            super().drop(state)

    def write(self, state: SavedState) -> bool:
        """Keep a state. False when it is too short, when there is no room, or when the disk refuses."""
        if len(state.tokens) < self._worth:
            return False
        known, length = self.longest(state.tokens, state.salt)
        if known is not None and length == len(state.tokens) and self.touch(known):
            return True
        salt, tokens = self._hashed(state.salt), array.array("i", state.tokens)
        rest = hashlib.sha256(self._key + salt + tokens.tobytes()).hexdigest()[:32]
        name = f"{owner_of(state.salt)}-{rest}{SUFFIX}"
        stored = self._store(name, salt, tokens, state)
        if stored:
            size = HEAD.size + tokens.itemsize * len(tokens) + state.size
            with self._lock:
                self._drop_covered(state.tokens, salt.hex())
                self._append(StoredState(self._folder.path / name, tokens, size, salt.hex()))
        self._forget_evicted()
        return stored

    def forget(self, tokens: Sequence[int], salt: str) -> None:
        """Drop the states that ``tokens`` cover."""
        with self._lock:
            self._index()
            self._drop_covered(tokens, self._hashed(salt).hex())

    # States that somebody names, which only other named ones push out

    def keep(self, name: str, state: SavedState) -> int:
        """Write a state under a name of its salt; returns the bytes of the file. Raises DiskFull.

        ``name``: letters, digits, dots, dashes and underscores.
        """
        tokens = array.array("i", state.tokens)
        file = f"{owner_of(state.salt)}-{name}{KEPT}"
        if not self._store(file, self._hashed(state.salt), tokens, state):
            raise DiskFull(
                f"{name} of {state.size >> 20} MB cannot be kept in {self._folder.path}: conversations may take "
                f"{self.limit >> 20} MB, half of it with names, and the log tells of a disk that refuses; delete files "
                "there, or raise prefix_cache_disk_mb"
            )
        return HEAD.size + tokens.itemsize * len(tokens) + state.size

    def kept(self, name: str, salt: str) -> tuple[SavedState, int]:
        """A state by its name, and the size of its file. Raises NotFound, MemoryError, InvalidRequest for a bad one."""
        path = self._folder.path / f"{owner_of(salt)}-{name}{KEPT}"
        try:
            if not self._folder.trusted and path.exists():
                raise ValueError(f"others may write to {self._folder.path}")
            with path.open("rb") as file:  # once: another server may put another file of this name there meanwhile
                tokens, size, hashed = self._head(file)
                data = _data(file, size)
                _stamp(file)
            if hashed != self._hashed(salt).hex():
                raise ValueError("it belongs to somebody else")
        except FileNotFoundError:
            raise NotFound(f"there is no saved slot {name!r} of this client", param="filename") from None
        except (OSError, ValueError, struct.error) as error:
            raise InvalidRequest(f"the saved slot {name!r} is of no use here: {error}", param="filename") from error
        return SavedState(tuple(tokens), data, salt), size

    def _hashed(self, salt: str) -> bytes:
        """The hash of a salt's scope, which stands for it in files: the salt may be derived from a key of the API."""
        return hashlib.sha256(self._key + scope_of(salt).encode()).digest()

    def _store(self, name: str, salt: bytes, tokens: array.array[int], state: SavedState) -> bool:
        packed = tokens.tobytes()
        covered = {one.path for one in tuple(self._states) if self._covers(state.tokens, salt.hex(), one)}
        sums = _checksum(salt, packed), len(tokens), zlib.crc32(state.data), state.size
        try:
            head = HEAD.pack(MAGIC, self._key, salt, *sums)
            stored = self._folder.store(name, (head, packed, state.data), covered)
        except OSError as error:
            if not self._refused:  # one line, however many states there are until the disk takes one again
                log.warning("a conversation's state of %d MB cannot be kept on disk: %s", state.size >> 20, error)
            self._refused = True
            return False
        self._refused = self._refused and not stored
        return stored

    def _drop(self, state: StoredState) -> None:
        super()._drop(state)
        remove(state.path)

    def _forget_evicted(self) -> None:
        """Forget states whose files the bound has cost, here or in another process."""
        there = {one.path for one in self._folder.files()}
        with self._lock:
            for state in [one for one in self._states if one.path not in there]:
                super()._drop(state)

    # The index

    def _index(self) -> None:
        """Read the headers of all files, once."""
        if self._indexed:
            return
        self._indexed = True
        if not self._folder.trusted:
            return  # there is none yet, or others may write there; the first write makes it private
        self._folder.tidy()
        for state in self._found():
            self._append(state)

    def _found(self) -> Iterator[StoredState]:
        """States, the least recently used first. Removes broken files."""
        for one in self._folder.files():
            if one.path.suffix != SUFFIX or one.path.parent != self._folder.path:
                continue
            try:
                with one.path.open("rb") as file:
                    yield StoredState(one.path, *self._head(file))
            except (Foreign, FileNotFoundError) as error:
                log.debug("%s is of no use here: %s", one.path, error)
            except (OSError, ValueError, struct.error) as error:
                log.info("%s is of no use (%s); removed", one.path, error)
                remove(one.path)

    def _head(self, file: BinaryIO) -> tuple[Sequence[int], int, str]:
        """Tokens, size and salt of a file. Raises OSError, ValueError or struct.error."""
        magic, key, salt, tokens_sum, count, _, data = HEAD.unpack(file.read(HEAD.size))
        if magic == MAGIC and key != self._key:
            raise Foreign("made by another model, release or setting")
        tokens = array.array("i")
        tokens.frombytes(file.read(min(count, MOST_TOKENS) * tokens.itemsize))
        size = os.fstat(file.fileno()).st_size
        whole = magic == MAGIC and size == HEAD.size + tokens.itemsize * count + data
        if not whole or _checksum(salt, tokens.tobytes()) != tokens_sum:
            raise ValueError("incomplete or damaged")
        return tokens, size, salt.hex()


def _data(file: BinaryIO, size: int) -> bytearray:
    """The state in an open file of ``size`` bytes. Raises OSError, ValueError, struct.error and MemoryError."""
    file.seek(0)
    count, checksum, length = HEAD.unpack(file.read(HEAD.size))[4:]
    if HEAD.size + 4 * count + length != size or os.fstat(file.fileno()).st_size != size:
        raise ValueError("its size is wrong")
    headroom.check(length)
    data = bytearray(length)
    file.seek(count * 4, os.SEEK_CUR)
    if file.readinto(data) != length or zlib.crc32(data) != checksum:  # type: ignore[attr-defined]
        raise ValueError("the checksum is wrong")
    return data


def _stamp(file: BinaryIO) -> None:
    """Note the use of a file for all processes. By descriptor: a confined worker may change no time by name."""
    with contextlib.suppress(OSError):  # a disk that can only be read
        os.utime(file.fileno())


def states_key(model: Path, options: LlamaOptions) -> bytes:
    """A hash of all that a state depends on. Raises OSError when there is no such model.

    It covers parts of the model's file: another model may have its name, its size and its time.
    """
    made = (model.name, options.kv_type, options.flash_attention, options.window, version())
    return hashlib.sha256(json.dumps(made).encode() + fingerprint(model)).digest()


def _checksum(salt: bytes, tokens: bytes) -> int:
    return zlib.crc32(tokens, zlib.crc32(salt))
