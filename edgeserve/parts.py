"""Parts of the application that some requests need: each is imported and made with its first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.datastructures import State

from edgeserve.api.limits import Limits
from edgeserve.assembly import rests_after
from edgeserve.config import Config
from edgeserve.errors import ShuttingDown
from edgeserve.models.store import Store
from edgeserve.residency.pool import Pool

if TYPE_CHECKING:
    from edgeserve.media.children import Children

LISTENERS = 32
"""Streams of the memory feed at once."""


class Parts(State):
    """The state of an application. ``makers`` make further attributes, each with its first use.

    Any thread may ask. A maker that fails raises, and runs again with the next use.
    """

    def __init__(self, makers: Mapping[str, Callable[[], Any]]) -> None:
        super().__init__()
        for name, value in (("_makers", makers), ("_lock", threading.RLock()), ("_closed", False)):
            object.__setattr__(self, name, value)  # the class keeps all other attributes in a table of its own

    def __getattr__(self, name: str) -> Any:
        """Raises ShuttingDown for a part that nobody has used before ``close``."""
        if name in self._makers and name not in self._state:
            with self._lock:
                if name not in self._state:
                    if self._closed:
                        raise ShuttingDown("the server ends and begins nothing new")
                    setattr(self, name, self._makers[name]())
        return super().__getattr__(name)

    def used(self, name: str, act: Callable[[Any], Any]) -> Any:
        """Act on a part and give the result; None where nobody has used the part yet."""
        part = self._state.get(name)
        return None if part is None else act(part)

    def close(self) -> None:
        """From now on, no part is made."""
        with self._lock:
            object.__setattr__(self, "_closed", True)


class Makers:
    """Makes the parts of a server: the names are those of ``app.state``."""

    def __init__(self, config: Config, pool: Pool, limits: Limits, store: Store) -> None:
        self._config, self._pool, self._limits, self._store = config, pool, limits, store
        self._pictures_apart: Children | None = None

    def table(self) -> dict[str, Callable[[], Any]]:
        return {
            "sessions": self._sessions,
            "places": self._places,
            "listeners": self._listeners,
            "first_sounds": self._first_sounds,
            "responses": self._responses,
            "pulls": self._pulls,
            "sound_files": self._sound_files,
            "picture_files": self._picture_files,
            "documents": self._documents,
            "cluster": self._cluster,
        }

    def _sessions(self) -> Any:
        from edgeserve.live.ear import Ear
        from edgeserve.live.sessions import Sessions

        return Sessions(
            Ear(self._pool),
            limit=self._config.server.live_sessions,
            idle_seconds=self._config.server.live_idle_seconds,
            max_seconds=self._limits.max_audio_seconds,
            traffic=self._pool.governor.accounts.traffic,
        )

    def _places(self) -> Any:
        from edgeserve.api.places import Places, most_kept

        governor = self._pool.governor
        most = most_kept(governor.probe.known().total)
        return Places(self._config.server.live_sessions, most_kept=most, traffic=governor.accounts.traffic)

    def _listeners(self) -> Any:
        from edgeserve.api.places import Places

        return Places(LISTENERS, "streams of the memory feed", "close one and try again")

    def _first_sounds(self) -> Any:
        from edgeserve.talk.first_sounds import FirstSounds

        return FirstSounds()

    def _responses(self) -> Any:
        from edgeserve.api.responses.store import ResponseStore

        store = ResponseStore()
        self._pool.governor.accounts.stored = lambda: store.bytes
        return store

    def _pulls(self) -> Any:
        from edgeserve.models.pulls import Pulls

        return Pulls(self._store)

    def _sound_files(self) -> Any:
        from edgeserve.audio.apart import SHARED, SoundFilesApart
        from edgeserve.audio.files import SoundFilesHere

        if not self._apart:
            return SoundFilesHere()
        return SoundFilesApart(self._children(*SHARED), machine=self._pool.governor.probe.known().total)

    def _picture_files(self) -> Any:
        from edgeserve.api.pictures.apart import PictureFilesApart
        from edgeserve.api.pictures.reader import PictureFilesHere
        from edgeserve.models import catalog

        traffic = self._pool.governor.accounts.traffic
        return PictureFilesApart(self._for_pictures(), catalog.PICTURES, traffic) if self._apart else PictureFilesHere()

    def _documents(self) -> Any:
        from edgeserve.api.documents.reader import DocumentsApart, DocumentsHere

        return DocumentsApart(self._for_pictures()) if self._apart else DocumentsHere()

    def _cluster(self) -> Any:
        from edgeserve.cluster.peers import read_peers
        from edgeserve.cluster.view import View

        return View(read_peers(self._config.server.peers), self._config.server.api_key)

    @property
    def _apart(self) -> bool:
        """Whether children decode and encode. Else all is to stay in this process."""
        return self._config.server.isolation != "thread"

    def _for_pictures(self) -> Children:
        """The children of pictures and documents, which share a fork server. One thread asks at a time."""
        from edgeserve.api.pictures import apart
        from edgeserve.models import catalog

        if self._pictures_apart is None:
            self._pictures_apart = self._children(apart.CHILD, catalog.PICTURES_LOADED)
        return self._pictures_apart

    def _children(self, *preload: str) -> Children:
        from edgeserve.media.children import Children
        from edgeserve.processes.launcher import make_launcher
        from edgeserve.processes.resting import Resting

        forks = Resting(lambda: make_launcher(preload), idle_seconds=rests_after(self._config))
        return Children(self._pool.roster.add_helpers(forks))
