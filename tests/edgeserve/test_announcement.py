"""Announcements in the network, on a stand-in for zeroconf, and on zeroconf in a network of the test's own."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import shutil
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
from support.sources import ROOT

from edgeserve.announcement import KIND, Announcement, addresses

NETWORK = ("unshare", "--user", "--map-root-user", "--net", "sh", "-ec")
LOOPBACK = """ip link set lo up multicast on
ip address add 192.0.2.7/32 dev lo
ip route add 224.0.0.0/4 dev lo
"""
"""A network of a loopback device alone, which carries multicast."""
WATCHER = """
import asyncio
from zeroconf import ServiceBrowser, Zeroconf
from edgeserve.announcement import KIND, Announcement

async def main():
    changes, loop = asyncio.Queue(), asyncio.get_running_loop()

    def changed(service_type, name, state_change, zeroconf):
        loop.call_soon_threadsafe(changes.put_nowait, (name, state_change.name))

    with Zeroconf() as network:
        browser = ServiceBrowser(network, KIND, handlers=[changed])
        announcement = Announcement("192.0.2.7", 10300)
        await announcement.begin()
        name, state = await changes.get()
        found = await asyncio.to_thread(network.get_service_info, KIND, name, 30_000)
        print(state, found.parsed_addresses(), found.port)
        await announcement.end()
        while state != "Removed":  # it may be told as updated before
            _, state = await changes.get()
        print(state)
        await asyncio.to_thread(browser.cancel)
        await asyncio.to_thread(network.close)

asyncio.run(main())
"""


class Network:
    """A stand-in of zeroconf; ``done`` lists its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.done: list[Any] = []
        network = self

        class AsyncServiceInfo:
            def __init__(self, kind: str, name: str, **facts: Any) -> None:
                self.kind, self.name, self.facts = kind, name, facts

        class AsyncZeroconf:
            async def async_register_service(self, service: AsyncServiceInfo, *, allow_name_change: bool) -> None:
                assert allow_name_change
                if error:
                    raise error
                network.done.append(service)

            async def async_unregister_all_services(self) -> None:
                network.done.append("withdrawn")

            async def async_close(self) -> None:
                network.done.append("closed")

        module: Any = ModuleType("zeroconf.asyncio")
        module.AsyncServiceInfo, module.AsyncZeroconf = AsyncServiceInfo, AsyncZeroconf
        monkeypatch.setitem(sys.modules, "zeroconf", ModuleType("zeroconf"))
        monkeypatch.setitem(sys.modules, "zeroconf.asyncio", module)


async def _whole(one: Announcement) -> None:
    await one.begin()
    await one.end()
    await one.end()


def test_a_port_that_others_reach_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch)
    asyncio.run(_whole(Announcement("192.0.2.7", 10300)))
    service, *after = network.done
    assert service.kind == KIND
    assert service.name.endswith(f".{KIND}")
    assert (service.facts["port"], service.facts["parsed_addresses"]) == (10300, ["192.0.2.7"])
    assert after == ["withdrawn", "closed"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "127.8.9.10"])
def test_a_port_of_this_machine_alone_is_not(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    network = Network(monkeypatch)
    asyncio.run(_whole(Announcement(host, 10300)))
    assert network.done == []


def test_without_zeroconf_it_is_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "zeroconf", None)
    with caplog.at_level(logging.INFO):
        asyncio.run(_whole(Announcement("192.0.2.7", 10300)))
    assert "edgeserve[zeroconf]" in caplog.text


def test_a_network_that_refuses_is_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    network = Network(monkeypatch, OSError("no network"))
    asyncio.run(_whole(Announcement("192.0.2.7", 10300)))
    assert "not announced in the network: no network" in caplog.text
    assert network.done == ["withdrawn", "closed"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_all_addresses_are_those_of_the_name(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    found = [(0, 0, 0, "", (one, 0)) for one in ("127.0.1.1", "192.0.2.7", "2001:db8::7", "192.0.2.7")]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: found)
    assert addresses(host) == ["192.0.2.7", "2001:db8::7"]


def test_a_machine_without_a_known_name(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no name")

    monkeypatch.setattr("socket.getaddrinfo", fail)
    with caplog.at_level(logging.INFO):
        assert addresses("0.0.0.0") == []
    assert "does not know its own addresses: no name" in caplog.text


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("zeroconf") is None, reason="zeroconf is not installed (extra zeroconf)")
def test_others_find_the_port_and_see_it_go() -> None:
    """By the packets of the real zeroconf, none of which leaves this machine."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        pytest.skip("there is no unshare or no ip, which make a network of the test's own")
    if subprocess.run([*NETWORK, "true"], capture_output=True).returncode:
        pytest.skip("this system lets users make no network of their own")
    command = [*NETWORK, f'{LOOPBACK}exec "$0" -c "$1"', sys.executable, WATCHER]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert ended.stdout.splitlines() == ["Added ['192.0.2.7'] 10300", "Removed"], ended.stderr
