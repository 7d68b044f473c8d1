"""The hand that carries the schedule out: one thread, one event after the other, each undone in its time."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import httpx
from benchmarks.chaos import events, house
from benchmarks.chaos.events import Event
from benchmarks.chaos.house import House

from edgeserve.units import MB

SIGNALS = {
    events.KILL: signal.SIGKILL,
    events.SEGV: signal.SIGSEGV,
    events.ABORT: signal.SIGABRT,
    events.STOP: signal.SIGSTOP,
    events.HANG: signal.SIGSTOP,
}
JUMPS = (-86_400 * 365, -3600, -1, 1, 3600, 86_400 * 365)
"""Seconds by which the clock jumps: a battery that was empty, daylight saving, a leap second."""
ROOM = 16 * MB
"""Bytes that a control group may take beside what it has, while it is squeezed."""
WORKER_SECONDS = 5.0
"""Longest wait for a process to hit."""
NEIGHBOUR = 64
"""MB that the neighbour takes. The kernel takes it after the server's children, and before the server."""
TAKE = (
    "import sys, threading\nopen('/proc/self/oom_score_adj', 'w').write('300')\nheld = []\n"
    f"for _ in range({NEIGHBOUR}):\n held.append(bytearray(b'x' * (1 << 20)))\n threading.Event().wait(0.01)\n"
    "sys.stdin.read()"
)


@dataclass(frozen=True, slots=True)
class Happening:
    """An event that took place from ``at`` to ``until``. ``jobs``: whom it hit. ``told``: the details."""

    kind: str
    jobs: Sequence[str]
    at: float
    until: float
    told: str


@dataclass(slots=True)
class Hands:
    """``clock``: seconds of the run. ``happened`` in the order of the ends. ``passed_over``: those not done."""

    house: House
    schedule: Sequence[Event]
    clock: Callable[[], float]
    happened: list[Happening] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    kills: int = 0
    """Processes that the kernel killed for want of memory."""
    _over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def stop(self) -> None:
        """Undo everything at once; events to come happen at once, too."""
        self._over.set()

    def run(self) -> None:
        """Blocks until all is undone. Events may overlap, but not two of one kind or at one job's file."""
        threads: list[threading.Thread] = []
        for event in self.schedule:
            self._over.wait(max(0.0, event.at - self.clock()))
            if any(one.is_alive() and one.name in (self._name(event), event.kind) for one in threads):
                self.passed_over.append(f"{event.kind} at {event.at:g} s: the last one is not over")
                continue
            threads.append(threading.Thread(target=self._carry_out, args=[event], name=self._name(event)))
            threads[-1].start()
        for one in threads:
            one.join()

    @staticmethod
    def _name(event: Event) -> str:
        """Events of one name exclude each other."""
        if event.kind in (events.CUT, events.REPLACE):
            return f"file of {event.job}"
        return "memory" if event.kind in (events.NEIGHBOUR, events.LIMIT) else event.kind

    def _carry_out(self, event: Event) -> None:
        at = self.clock()
        try:
            told = self._do(event)
        except httpx.HTTPError as error:
            told = f"{event.kind}: {type(error).__name__} {error}"
        except Exception as error:
            self.failures.append(error)
            return
        if told:
            with self._lock:
                self.happened.append(Happening(event.kind, self._hit(event), at, self.clock(), told))
        else:
            self.passed_over.append(f"{event.kind} at {event.at:g} s: {event.job or 'nobody'} had no process")

    def _hit(self, event: Event) -> Sequence[str]:
        form = self.house.form
        if event.kind in events.OF_ALL:
            return form.jobs
        shared = form.sharing.get(event.job) if event.kind in (events.CUT, events.REPLACE) else None
        return shared or (event.job,)

    def _do(self, event: Event) -> str:
        """Returns the deed in words; "" when there was nobody to do it to."""
        if event.kind == events.ABORT and event.job == "llm" and self.house.form.abort:
            return self._abort_by_word()
        if event.kind in SIGNALS:
            return self._signal(event)
        if event.kind == events.FORKS:
            return self._kill_forks()
        if event.kind == events.MOVE:
            return self._move(event.job)
        with contextlib.ExitStack() as undo:
            told = undo.enter_context(self._bracket(event))
            if told:
                self._over.wait(event.seconds)
        return told

    # At once

    def _abort_by_word(self) -> str:
        body = {"prompt": f"please {self.house.form.abort} here"}
        answer = httpx.post(f"{self.house.server.url}/v1/chat", json=body, timeout=self.house.form.limit)
        return f"the chat engine was asked to abort: {answer.status_code}"

    def _await_worker(self, job: str) -> int | None:
        """The worker of a job, as soon as there is one."""
        until = self.clock() + WORKER_SECONDS
        while not (pids := self.house.named().get(job)) and self.clock() < until:
            self._over.wait(0.1)
        return pids[0] if pids else None

    def _signal(self, event: Event) -> str:
        pid = self._await_worker(event.job)
        if pid is None:
            return ""
        number = SIGNALS[event.kind]
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if event.kind == events.STOP:
            self._over.wait(event.seconds)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        elif event.kind == events.HANG:
            self._await_death(pid, event)
        return f"{signal.Signals(number).name} to pid {pid}"

    def _await_death(self, pid: int, event: Event) -> None:
        """Only work shows that a worker hangs: somebody asks until it is gone. Then it goes on if nobody noticed."""
        until = self.clock() + event.seconds
        while self.clock() < until and pid in self.house.named().get(event.job, []):
            self._over.wait(0.5)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def _kill_forks(self) -> str:
        pids = self.house.named().get(house.FORKS, [])
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return f"SIGKILL to {len(pids)} fork servers" if pids else ""

    def _move(self, job: str) -> str:
        url = self.house.server.url
        out = httpx.post(f"{url}/memory/evict/{job}", timeout=self.house.form.limit)
        back = httpx.post(f"{url}/memory/preload", json={"engines": [job]}, timeout=self.house.form.limit)
        return f"evicted ({out.status_code}) and loaded ({back.status_code})"

    # For some time

    def _bracket(self, event: Event) -> contextlib.AbstractContextManager[str]:
        found = {
            events.CUT: lambda: self._cut(event.job),
            events.REPLACE: lambda: self._replaced(event.job),
            events.NEIGHBOUR: lambda: self._squeezed(neighbour=True),
            events.LIMIT: lambda: self._squeezed(neighbour=False),
            events.DISK: self._full,
            events.RELOAD: lambda: self._reloaded(event.job),
            events.CLOCK: lambda: self._wrong_clock(event),
        }
        return found[event.kind]()

    @contextlib.contextmanager
    def _cut(self, job: str) -> Iterator[str]:
        """The rest is appended again: no reader ever sees a byte that is not the model's."""
        path = self.house.form.files[job]
        with path.open("r+b") as file:  # stays the same file, if somebody writes another one meanwhile
            data = file.read()
            half = len(data) // 2
            file.truncate(half)
            try:
                yield f"{path.name} was cut to {half:,} bytes"
            finally:
                file.seek(half)
                file.write(data[half:])

    @contextlib.contextmanager
    def _replaced(self, job: str) -> Iterator[str]:
        """By a file of the same size; who has mapped the old one keeps it."""
        path = self.house.form.files[job]
        aside = path.with_name(f"{path.name}.aside")
        other = path.with_name(f"{path.name}.other")
        os.link(path, aside)
        with other.open("wb") as file:
            file.write(random.Random(job).randbytes(1000))
            file.truncate(path.stat().st_size)
        other.replace(path)
        try:
            yield f"{path.name} was replaced by another"
        finally:
            aside.replace(path)

    @contextlib.contextmanager
    def _squeezed(self, neighbour: bool) -> Iterator[str]:
        group = self.house.group
        if group is None:
            yield ""
            return
        kills, size = group.kills(), group.usage() + ROOM
        group.limit(size)
        with contextlib.ExitStack() as stack:
            stack.callback(group.lift)
            if neighbour:
                stack.enter_context(self._neighbour())
            yield f"the control group was held to {size // MB} MB{' beside a neighbour' if neighbour else ''}"
        self.kills += group.kills() - kills

    @contextlib.contextmanager
    def _neighbour(self) -> Iterator[None]:
        assert self.house.group is not None
        command = [*self.house.group.launcher, sys.executable, "-c", TAKE]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                yield
            finally:
                process.kill()

    @contextlib.contextmanager
    def _wrong_clock(self, event: Event) -> Iterator[str]:
        seconds = random.Random(event.at).choice(JUMPS)
        self._jump(seconds)
        try:
            yield f"the wall clock jumped by {seconds:+,} s"
        finally:
            self._jump(0)

    @contextlib.contextmanager
    def _reloaded(self, job: str) -> Iterator[str]:
        """Other threads for one engine: it is replaced once its answers have ended."""
        config = self.house.form.config
        assert config is not None
        text = config.read_text()
        config.write_text(
            text.replace(f"[{job}]\n", f"[{job}]\nthreads = 1\n").replace("warm_after = 4.0", "warm_after = 3.0")
        )
        try:
            told = f"{job} got other settings ({self._reload()})"
            yield told
        finally:
            config.write_text(text)
            self._reload()

    def _reload(self) -> int:
        return httpx.post(f"{self.house.server.url}/admin/reload", timeout=self.house.form.limit).status_code

    def _jump(self, seconds: int) -> None:
        self.house.clock.write_text(str(seconds))
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.house.server.pid, signal.SIGUSR2)

    @contextlib.contextmanager
    def _full(self) -> Iterator[str]:
        if self.house.disk is None:
            yield ""
            return
        place = house.inside(self.house) / "filler"
        size = house.fill(place)
        try:
            yield f"{size:,} bytes filled the disk"
        finally:
            place.unlink()
