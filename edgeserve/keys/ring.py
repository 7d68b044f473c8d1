"""The keys in force: the one of the settings, and those of the file, which is read again when it changes."""

from __future__ import annotations

import contextlib
import hmac
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from edgeserve.errors import ConfigError
from edgeserve.keys import file
from edgeserve.keys.key import Key, digest_of
from edgeserve.keys.pace import Pace
from edgeserve.system.stamps import Stamp, stamp_with_rights

log = logging.getLogger("edgeserve.keys")

MOST_TOKENS = 4
"""Tokens of one request that are looked at: each is compared with all keys."""
CLOSED = "the file of keys cannot be read, so no key fits: the log of the server says why; mend the file"


class Keyring:
    """One thread.

    Arguments:
        own   the key of the settings, which manages the server; empty: none
        path  the file of keys; None: there is none

    Raises ConfigError for a file that cannot be taken.
    """

    def __init__(self, own: str = "", path: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._own = (Key(file.OWN_NAME, digest_of(own.encode()), "admin"),) if own else ()
        self._path = path
        self._clock = clock
        self._paces: dict[Key, Pace] = {}
        self._listeners: list[Callable[[], None]] = []
        self.problem = ""
        """Why no key is in force although requests need one; empty where the file of keys could be read."""
        self._stamp = self._stamp_now()
        found = file.read(path) if path is not None else None
        self.required = bool(own) or found is not None
        """Whether requests need a key. It stays so until the server ends, even where the file vanishes."""
        self._take(found or ())

    def look(self) -> None:
        """Read the file again if its stamp has changed. A mistake is logged, and opens nothing.

        The keys stay as they were. A server without keys closes, since the file was made to lock it.
        """
        stamp = self._stamp_now()
        if self._path is None or stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            found = file.read(self._path)
        except ConfigError as error:
            self._refuse(error.message)
            return
        self.required, self.problem = self.required or found is not None, ""
        self._take(found or ())
        log.info("%s: %d keys", self._path, len(found or ()))
        self._tell()

    @contextlib.contextmanager
    def listening(self, changed: Callable[[], None]) -> Iterator[None]:
        """Call ``changed`` after each change of the keys."""
        self._listeners.append(changed)
        try:
            yield
        finally:
            self._listeners.remove(changed)

    def _tell(self) -> None:
        for one in tuple(self._listeners):
            one()

    def _refuse(self, mistake: str) -> None:
        """Log a mistake in the file. Where no key was ever required, none fits from now on."""
        if self.required and not self.problem:
            log.error("the keys stay as they were: %s", mistake)
            return
        self.required, self.problem = True, CLOSED
        log.error("the server answers nobody until the file of keys is mended: %s", mistake)
        self._tell()

    def find(self, tokens: Iterable[bytes]) -> Key | None:
        """The key of the first of these tokens that has one."""
        for token in itertools.islice(tokens, MOST_TOKENS):
            given = digest_of(token)
            # All keys are compared: the time reveals nothing about the one that fits.
            fitting = [one for one in self._paces if hmac.compare_digest(one.digest, given)]
            if fitting:
                return fitting[0]
        return None

    def has(self, key: Key) -> bool:
        """Whether a key that ``find`` has found is in force now, perhaps with other limits."""
        return any(one.digest == key.digest for one in self._paces)

    @property
    def sole(self) -> bool:
        """Whether one key is in force, and no other."""
        return len(self._paces) == 1

    def pace(self, key: Key) -> Pace:
        """The pace of a key that ``find`` has found."""
        return self._paces[key]

    def _take(self, keys: tuple[Key, ...]) -> None:
        """Let these keys be in force. A key that stays as it was keeps its pace."""
        self._paces = {one: self._paces.get(one) or Pace(one, self._clock) for one in (*self._own, *keys)}

    def _stamp_now(self) -> Stamp:
        return None if self._path is None else stamp_with_rights(self._path)
