"""The one suite that every launcher passes, and what is special to each platform's."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import psutil
import pytest
from support import entries
from support.children import SECONDS, gone, linux, read, started_server
from support.descriptors import leaves_no_descriptor
from support.server import until

from edgeserve.errors import EngineFailure, ShuttingDown
from edgeserve.processes.child import Child
from edgeserve.processes.forker import Forker
from edgeserve.processes.launcher import Launcher, make_launcher
from edgeserve.processes.spawner import Spawner

pytestmark = pytest.mark.slow  # child processes; tests/edgeserve/hosts starts some, too


def test_linux_forks_and_others_spawn() -> None:
    assert isinstance(make_launcher(platform="linux"), Forker)
    assert isinstance(make_launcher(platform="darwin"), Spawner)


class Suite:
    make: ClassVar[Callable[[], Launcher]]
    crowd: ClassVar[int]
    cycles: ClassVar[int]

    @pytest.fixture(scope="class")
    @classmethod
    def launcher(cls) -> Iterator[Launcher]:
        launcher = cls.make()
        yield launcher
        launcher.stop()

    @pytest.fixture
    def launch(self, launcher: Launcher) -> Iterator[Callable[..., Child]]:
        """Start an entry of ``support.entries``; the child is closed with the test."""
        with contextlib.ExitStack() as children:

            def launch(entry: str, **arguments: object) -> Child:
                return children.enter_context(launcher.launch(f"support.entries:{entry}", arguments, "test"))

            yield launch

    def test_an_entry_gets_its_socket_and_its_arguments(self, launch: Callable[..., Child]) -> None:
        child = launch("echo", deep=[1, {"a": None}], text="\u00e9\n")
        child.socket.settimeout(SECONDS)
        assert json.loads(child.socket.recv(4096)) == {"deep": [1, {"a": None}], "text": "\u00e9\n"}
        assert child.exit is None
        child.socket.shutdown(socket.SHUT_WR)
        assert child.wait(SECONDS) == child.exit == 0
        assert child.socket.recv(1) == b""

    def test_what_an_entry_prints_is_flushed_and_an_error_is_a_traceback(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        launcher = self.make()
        with launcher.launch("support.entries:fail", {}, "test") as child:
            assert child.wait(SECONDS) == 1
        with launcher.launch("support.entries:leave_thread", {}, "test") as child:
            assert child.wait(SECONDS) == 0
        launcher.stop()
        printed = capfd.readouterr()
        assert printed.out == "written last"
        assert printed.err.startswith("Traceback (most recent call last):")
        assert printed.err.endswith("ValueError: this entry fails\n")

    def test_an_entry_that_does_not_exist_is_code_1(self, launch: Callable[..., Child]) -> None:
        assert launch("nowhere").wait(SECONDS) == 1

    @pytest.mark.parametrize(("code", "exit_code"), [(7, 7), (None, 0), ("words", 1)])
    def test_an_entry_chooses_its_exit_code(self, launch: Callable[..., Child], code: object, exit_code: int) -> None:
        assert launch("leave", code=code).wait(SECONDS) == exit_code

    def test_death_by_a_signal_is_a_negative_code(self, launch: Callable[..., Child]) -> None:
        assert launch("die", signal=signal.SIGKILL).wait(SECONDS) == -signal.SIGKILL
        assert launch("die", signal=signal.SIGUSR1).wait(SECONDS) == -signal.SIGUSR1

    def test_signals_that_all_processes_get_end_no_child(self, launch: Callable[..., Child]) -> None:
        child = launch("echo")
        child.socket.settimeout(SECONDS)
        assert child.socket.recv(10) == b"{}"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(child.pid, number)
            child.signal(number)
        child.socket.send(b"x")
        assert child.wait(SECONDS) == 0

    def test_a_stopped_child_is_stopped_for_good(self, launch: Callable[..., Child]) -> None:
        polite, deaf = launch("wait", polite=True), launch("wait")
        for child in (polite, deaf):
            child.socket.settimeout(SECONDS)
            assert child.socket.recv(1) == b"x"
            child.signal(signal.SIGSTOP)
            until(lambda pid=child.pid: psutil.Process(pid).status() == psutil.STATUS_STOPPED)  # type: ignore[misc]
        assert polite.stop(seconds=0, term_seconds=SECONDS) == -signal.SIGTERM
        assert deaf.stop(seconds=0, term_seconds=0) == -signal.SIGKILL
        assert gone(polite.pid)
        assert gone(deaf.pid)

    def test_a_closed_child_is_killed(self, launch: Callable[..., Child]) -> None:
        child = launch("spin")
        child.close()
        assert child.exit == -signal.SIGKILL
        assert child.socket.fileno() == -1
        child.signal(signal.SIGTERM)
        child.close()

    @linux
    def test_nothing_is_inherited(self) -> None:
        """A launcher that starts while this process has handlers, blocked signals and descriptors to inherit."""
        launcher, (one, other) = self.make(), os.pipe()
        os.set_inheritable(one, True)
        handler = signal.signal(signal.SIGUSR1, lambda number, frame: None)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGINT])
        try:
            with launcher.launch("support.entries:report", {}, "test") as child:
                found = read(child)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            signal.signal(signal.SIGUSR1, handler)
            launcher.stop()
            os.close(one)
            os.close(other)
        numbers = {int(number): link for number, link in found["descriptors"].items() if "/fd" not in link}
        assert numbers[0] == os.devnull
        sockets = [link for number, link in numbers.items() if number > 2]
        assert all(link.startswith("socket:") for link in sockets)
        assert len(sockets) == (2 if isinstance(launcher, Spawner) else 1)  # the lifeline is a spawned child's own
        assert found["blocked"] == []
        assert found["handled"] == []
        quiet = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ}
        assert set(found["ignored"]) == quiet

    @linux
    def test_a_child_lives_where_the_server_lives(self, launch: Callable[..., Child]) -> None:
        found, here = read(launch("report")), entries.facts()
        for fact in ("path", "folder"):
            assert found[fact] == here[fact], fact
        assert found["locale"]["LC_CTYPE"] == here["locale"]["LC_CTYPE"]
        assert (found["locale"]["LC_NUMERIC"], found["locale"]["LC_TIME"]) == ("C", "C")
        assert set(found["encodings"]) == {"utf-8"}
        for name in ("PYTEST_CURRENT_TEST", "EDGESERVE_STATES_DIR"):  # another one in each test
            here["environment"].pop(name, None)
        assert here["environment"].items() <= found["environment"].items()

    @linux
    def test_a_child_has_a_name_and_dies_before_the_server(self, launch: Callable[..., Child]) -> None:
        found, here = read(launch("report")), entries.facts()
        assert (found["name"], found["command"]) == ("edgeserve: test", "edgeserve: test")
        assert found["oom_score"] == min(1000, here["oom_score"] + 500)

    @linux
    def test_children_have_random_numbers_of_their_own(self, launch: Callable[..., Child]) -> None:
        first, second = (read(launch("report"))["random"] for _ in range(2))
        assert first[0] != second[0]

    def test_many_threads_launch_at_once(self, launch: Callable[..., Child]) -> None:
        with ThreadPoolExecutor(8) as threads:
            children = list(threads.map(lambda number: launch("echo", number=number), range(self.crowd)))
        for number, child in enumerate(children):
            child.socket.settimeout(SECONDS)
            assert json.loads(child.socket.recv(100)) == {"number": number}
            child.socket.shutdown(socket.SHUT_WR)
        assert [child.wait(SECONDS) for child in children] == [0] * self.crowd
        assert len({child.pid for child in children}) == self.crowd

    def test_the_end_of_the_thread_that_launched_ends_no_child(self) -> None:
        launcher, children = self.make(), list[Child]()
        thread = threading.Thread(target=lambda: children.append(launcher.launch("support.entries:echo", {}, "test")))
        thread.start()
        thread.join()
        with children[0] as child, launcher.launch("support.entries:echo", {}, "test") as second:
            for one in (child, second):
                one.socket.settimeout(SECONDS)
                assert one.socket.recv(10) == b"{}"
                one.socket.send(b"x")
                assert one.wait(SECONDS) == 0
        launcher.stop()

    def test_waiters_of_all_threads_hear_of_the_end(self, launch: Callable[..., Child]) -> None:
        child = launch("wait")
        with ThreadPoolExecutor(4) as threads:
            codes = [threads.submit(child.wait, SECONDS) for _ in range(4)]
            child.signal(signal.SIGKILL)
            assert {code.result() for code in codes} == {-signal.SIGKILL}

    def test_pids_are_those_of_processes_that_run(self) -> None:
        def below() -> set[int]:
            return {each.pid for each in psutil.Process().children(recursive=True)}

        launcher, others = self.make(), below()
        assert launcher.pids() == []
        with launcher.launch("support.entries:wait", {}, "a") as one, launcher.launch("support.entries:wait", {}, "b"):
            pids = launcher.pids()
            assert set(pids) == below() - others
            one.kill()
            assert set(launcher.pids()) == set(pids) - {one.pid}
        launcher.stop()
        assert launcher.pids() == []

    def test_a_stopped_launcher_starts_nothing(self) -> None:
        launcher = self.make()
        launcher.stop()
        with pytest.raises(ShuttingDown):
            launcher.launch("support.entries:echo", {}, "test")

    def test_arguments_that_are_no_json_or_too_long_are_refused(self, launch: Callable[..., Child]) -> None:
        with pytest.raises(TypeError):
            launch("echo", value=object())
        with pytest.raises(ValueError, match=r"take 200,\d+ bytes; at most 131,072"):
            launch("echo", value="x" * 200_000)

    def test_a_server_without_descriptors_is_told(self, launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
        make, made = socket.socketpair, itertools.count()

        def pairs(*how: int) -> tuple[socket.socket, socket.socket]:
            if next(made) % 2:
                raise OSError(errno.EMFILE, "Too many open files")
            return make(*how)

        def launch() -> None:
            with pytest.raises(EngineFailure, match=r"no process for test: Too many open files \(errno 24\)"):
                launcher.launch("support.entries:echo", {}, "test")

        monkeypatch.setattr(socket, "socketpair", pairs)
        leaves_no_descriptor(launch)

    @pytest.mark.slow
    def test_a_killed_server_takes_all_its_processes_along(self) -> None:
        server, pids = started_server(self.make)
        assert len(pids) == (3 if self.make is Forker else 2)
        server.kill()
        server.communicate()
        until(lambda: all(gone(pid) for pid in pids))

    @pytest.mark.slow
    def test_many_cycles_leave_nothing_behind(self, launcher: Launcher) -> None:
        def cycle() -> None:
            with launcher.launch("support.entries:echo", {}, "test") as child:
                child.socket.send(b"x")
                assert child.wait(SECONDS) == 0

        cycle()
        before, below = self.left(), self.below(launcher)
        for _ in range(self.cycles):
            cycle()
        # The fork server closes its end after it has told the exit code: the first reading may hold one more.
        until(lambda: all(now <= then for now, then in zip(self.below(launcher), below, strict=True)))
        # Servers of other tests live and end in this process too. One descriptor or thread a cycle would be ours.
        until(lambda: all(now < then + self.cycles // 2 for now, then in zip(self.left(), before, strict=True)))

    def left(self) -> tuple[int, int]:
        """Descriptors and threads of this process."""
        ours = psutil.Process()
        return ours.num_fds(), ours.num_threads()

    def below(self, launcher: Launcher) -> list[tuple[int, int]]:
        """Descriptors and threads of each process the launcher keeps."""
        return [(one.num_fds(), one.num_threads()) for one in map(psutil.Process, launcher.pids())]


@linux
class TestForker(Suite):
    make = Forker
    crowd, cycles = 16, 100


class TestSpawner(Suite):
    make = Spawner
    crowd, cycles = 4, 25
