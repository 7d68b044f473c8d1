"""Bodies that arrive slowly, and the body to refuse when memory is short."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.gates import Clock

from edgeserve.api.bodies import FREE_VALUES, LARGEST_AT_ONCE, SHARE, SLOWEST, SMALL, Bodies, Body
from edgeserve.clients import Client, Groups
from edgeserve.errors import Busy, RequestTimeout, TooLarge
from edgeserve.memory.traffic import Traffic

KB, MB = 1 << 10, 1 << 20


def part(size: int, *, more: bool = True) -> Callable[[], Awaitable[Any]]:
    async def receive() -> Any:
        return {"type": "http.request", "body": bytes(size), "more_body": more}

    return receive


async def never() -> Any:
    await asyncio.Event().wait()


@examples(50)
@given(st.lists(st.lists(st.integers(0, 40_000), max_size=4), max_size=6), st.integers(0, 5))
def test_the_bytes_of_bodies_count_until_each_is_closed(sizes: list[list[int]], left: int) -> None:
    """The governor must know them: engines measure their memory by the growth of the process."""
    traffic = Traffic()
    bodies = Bodies(MB // 10, 20, traffic=traffic)
    opened = [bodies.open() for _ in sizes]
    for body, parts in zip(opened, sizes, strict=True):
        for size in parts:
            with contextlib.suppress(TooLarge, Busy):  # of equal rates, any is the slowest
                body.hold(size)
    assert traffic.held == sum(map(sum, sizes))
    for body in (*opened[left:], *opened[left:]):
        bodies.close(body)
        body.hold(1)  # too late to count: nobody closes the body again
    assert traffic.held == sum(map(sum, sizes[:left]))
    assert traffic.came == sum(map(sum, sizes))


def test_the_values_of_bodies_count_with_them_until_each_is_closed() -> None:
    """They come free again, so nobody else may be refused for them as for memory that the server keeps."""
    traffic = Traffic()
    bodies = Bodies(32 * MB, 20, traffic=traffic)
    body = bodies.open()
    body.hold(MB)
    body.parse(FREE_VALUES + 9 * MB)
    assert traffic.held == bodies.held(body) == 10 * MB
    body.parse(FREE_VALUES + 2 * MB)
    assert traffic.held == 3 * MB
    bodies.close(body)
    body.parse(FREE_VALUES + 4 * MB)  # too late to count
    assert (traffic.held, bodies.held(body)) == (0, 0)


def test_of_bodies_that_came_as_fast_the_oldest_is_refused() -> None:
    async def run() -> None:
        bodies = Bodies(MB, 20, clock=lambda: 0.0)
        first, *others = [bodies.open() for _ in range(SHARE * 2)]
        for one in (first, *others):
            await one.next(part(MB // 2))
        await bodies.open().next(part(MB // 2))
        assert [one.cut for one in (first, *others)] == [True, False, False, False]

    asyncio.run(run())


def test_small_bodies_are_admitted_whatever_the_large_ones_take() -> None:
    async def run() -> None:
        bodies = Bodies(32 * MB, 20)
        for number in range(LARGEST_AT_ONCE):
            await bodies.open(Client(address=f"10.0.0.{number}")).next(part(32 * MB, more=False))
        for _ in range(100):
            await bodies.open().next(part(SMALL, more=False))
        for _ in range(LARGEST_AT_ONCE):
            await bodies.open().next(part(SMALL, more=False))

    asyncio.run(run())


def test_two_keys_at_one_address_hold_bodies_of_their_own() -> None:
    """All clients of a proxy have its address."""
    bodies = Bodies(32 * MB, 20.0)

    async def check() -> None:
        for _ in range(2):
            await bodies.open(Client("one", "10.0.0.1")).next(part(32 * MB, more=False))
        with pytest.raises(Busy):
            await bodies.open(Client("one", "10.0.0.1")).next(part(MB, more=False))
        await bodies.open(Client("other", "10.0.0.1")).next(part(32 * MB, more=False))

    asyncio.run(check())


def test_the_networks_of_one_key_leave_room_for_another_key() -> None:
    """Two of them held all bodies."""
    bodies = Bodies(32 * MB, 20.0)

    async def check() -> None:
        for number in (1, 1, 2):
            await bodies.open(Client("one", f"10.0.0.{number}")).next(part(32 * MB, more=False))
        for number in (2, 3):
            refused = bodies.open(Client("one", f"10.0.0.{number}"))
            with pytest.raises(Busy):
                await refused.next(part(MB, more=False))
            bodies.close(refused)
        await bodies.open(Client("other", "10.0.0.1")).next(part(32 * MB, more=False))

    asyncio.run(check())


def test_the_networks_of_the_key_that_holds_most_pay_for_it() -> None:
    async def check() -> None:
        clock = Clock()
        bodies = Bodies(32 * MB, 20.0, clock)
        greedy = [bodies.open(Client("one", f"10.0.0.{number}")) for number in range(6)]
        for one in greedy:
            await one.next(part(15 * MB))
        waits = [asyncio.ensure_future(one.next(never)) for one in greedy]
        await asyncio.sleep(0)
        clock.now += 1
        for _ in range(2):
            await bodies.open(Client("other", "10.0.0.1")).next(part(23 * MB, more=False))
        assert [one.cut for one in greedy].count(True) == 1
        for wait in waits:
            wait.cancel()

    asyncio.run(check())


def test_the_values_of_a_client_s_bodies_are_bounded_together() -> None:
    """A megabyte of small values takes thirty times as much memory once it is read."""

    async def run() -> None:
        bodies = Bodies(32 * MB, 20)

        async def read(client: str, size: int, values: int) -> Body:
            body = bodies.open(Client(address=client))
            await body.next(part(size, more=False))
            body.parse(values)
            return body

        first, _ = [await read("10.0.0.1", MB, 28 * MB) for _ in range(SHARE)]
        for _ in range(100):
            await read("10.0.0.1", SMALL, FREE_VALUES)
        with pytest.raises(Busy, match="hold 128 MB of bodies, 96 MB of your key or site, or 64 MB of yours"):
            await read("10.0.0.1", MB, 28 * MB)
        await read("10.0.0.2", MB, 28 * MB)
        bodies.close(first)

    asyncio.run(run())


def test_a_small_body_that_still_arrives_is_not_refused_for_a_large_one() -> None:
    async def run() -> None:
        bodies = Bodies(32 * MB, 20)
        small = bodies.open(Client(address="10.0.0.1"))
        await small.next(part(100))
        for _ in range(SHARE):
            await bodies.open(Client(address="10.0.0.1")).next(part(32 * MB, more=False))
        with pytest.raises(Busy):
            await bodies.open(Client(address="10.0.0.1")).next(part(MB, more=False))
        await small.next(part(100, more=False))

    asyncio.run(run())


def test_a_body_alone_may_have_any_values() -> None:
    async def run() -> None:
        bodies = Bodies(MB, 20)
        body = bodies.open()
        await body.next(part(MB // 2, more=False))
        body.parse(100 * MB)
        assert body.shared <= MB

    asyncio.run(run())


def test_stalled_uploads_are_cut_for_one_that_comes() -> None:
    async def run() -> None:
        clock = Clock()
        bodies = Bodies(32 * MB, 20, clock)
        stalled = [bodies.open(Client(address=f"10.0.0.{number % 2}")) for number in range(LARGEST_AT_ONCE)]
        for one in stalled:
            await one.next(part(31 * MB))
        waiting = [asyncio.create_task(one.next(never)) for one in stalled]
        await asyncio.sleep(0)
        clock.now += 10
        quick = bodies.open(Client(address="10.0.0.2"))
        for _ in range(32):
            await quick.next(part(MB))
        refused, _ = await asyncio.wait(waiting, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        assert len(refused) == 1
        with pytest.raises(Busy, match="try again when some are done"):
            refused.pop().result()
        for task in waiting:
            task.cancel()

    asyncio.run(run())


def test_the_client_that_holds_most_pays_for_it() -> None:
    async def run() -> None:
        clock = Clock()
        bodies = Bodies(32 * MB, 20, clock)
        greedy = [bodies.open(Client(address=f"10.0.1.{number % 2}")) for number in range(LARGEST_AT_ONCE)]
        slow = bodies.open(Client(address="10.0.0.2"))
        await slow.next(part(2 * MB))
        clock.now += 10  # its client is slow; the others' is quick
        for one in greedy:
            await one.next(part(30 * MB))
        await slow.next(part(7 * MB))
        assert not slow.cut
        assert sum(one.cut for one in greedy) == 1

    asyncio.run(run())


def test_bodies_that_have_come_leave_room_for_other_clients() -> None:
    """Complete bodies stay until their requests end, which may be long where a client does not read its answer."""

    async def run() -> None:
        bodies = Bodies(32 * MB, 20)
        for _ in range(SHARE):
            await bodies.open(Client(address="10.0.0.1")).next(part(32 * MB, more=False))
        with pytest.raises(Busy, match="hold 128 MB of bodies, 96 MB of your key or site, or 64 MB of yours"):
            await bodies.open(Client(address="10.0.0.1")).next(part(MB))
        await bodies.open(Client(address="10.0.0.2")).next(part(32 * MB, more=False))

    asyncio.run(run())


def test_a_client_beyond_its_share_loses_its_own_slowest_body() -> None:
    async def run() -> None:
        clock = Clock()
        bodies = Bodies(32 * MB, 20, clock)
        other, slow = bodies.open(Client(address="10.0.0.2")), bodies.open(Client(address="10.0.0.1"))
        for one in (other, slow):
            await one.next(part(2 * MB))
        waits = [asyncio.ensure_future(one.next(never)) for one in (other, slow)]
        await asyncio.sleep(0)
        clock.now += 1
        for _ in range(SHARE):
            await bodies.open(Client(address="10.0.0.1")).next(part(31 * MB + SMALL, more=False))
        await bodies.open(Client(address="10.0.0.1")).next(part(MB))
        assert (other.cut, slow.cut) == (False, True)
        for wait in waits:
            wait.cancel()

    asyncio.run(run())


@examples(50)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40), st.booleans()), max_size=60))
def test_the_limit_holds_whatever_comes(parts: list[tuple[int, int, bool]]) -> None:
    async def run() -> None:
        bodies = Bodies(100, 20)
        known: dict[int, Body] = {}
        for number, size, more in parts:
            one = known.setdefault(number, bodies.open(Client(address=f"10.0.0.{number % 3}")))
            if one.whole:
                continue
            try:
                await one.next(part(size, more=more))
            except (Busy, TooLarge):
                bodies.close(known.pop(number))
            assert sum(one.shared for one in known.values()) <= LARGEST_AT_ONCE * 100
            own = Counter[Groups]()
            for one in known.values():
                own[one.groups] += one.shared
            assert max(own.values(), default=0) <= SHARE * 100

    asyncio.run(run())


@pytest.mark.parametrize("size", [0, 5000])
def test_a_pause_ends_a_body(size: int) -> None:
    async def run() -> None:
        body = Bodies(MB, 0.05).open()
        await body.next(part(size))
        with pytest.raises(RequestTimeout, match=f"did not come in time: {size} bytes in 0 s, and no end"):
            await body.next(never)

    asyncio.run(run())


def test_a_body_that_trickles_ends() -> None:
    async def run() -> None:
        clock = Clock()
        body = Bodies(MB, 20, clock).open()

        async def late() -> Any:
            clock.now += 15
            return {"type": "http.request", "body": b"x", "more_body": True}

        for _ in range(2):
            await body.next(late)
        with pytest.raises(RequestTimeout, match=f"at least {SLOWEST} bytes a second"):
            await asyncio.wait_for(body.next(never), 5)

    asyncio.run(run())


def test_a_slow_body_of_enough_bytes_a_second_may_take_long() -> None:
    async def run() -> None:
        clock = Clock()
        body = Bodies(MB, 20, clock).open()

        async def steady() -> Any:
            clock.now += 1
            return {"type": "http.request", "body": bytes(SLOWEST), "more_body": True}

        for _ in range(500):
            await body.next(steady)

    asyncio.run(run())


def test_only_bodies_have_a_deadline() -> None:
    """After its body, a request waits for its answer without a limit."""

    async def run() -> None:
        body = Bodies(MB, 0.01).open()
        await body.next(part(1, more=False))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(body.next(never), 0.1)

    asyncio.run(run())


def test_a_body_whose_time_is_up_is_refused_without_an_error_for_others() -> None:
    async def run() -> None:
        bodies = Bodies(32 * MB, 20)
        slow = bodies.open()
        waiting = asyncio.ensure_future(slow.next(never))
        await asyncio.sleep(0)
        timer = slow._timer
        assert timer is not None
        timer.reschedule(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        assert timer.expired()
        assert not waiting.done(), "it has not run since"
        slow.refuse()
        with pytest.raises(Busy):
            await waiting

    asyncio.run(run())


def test_a_body_that_ends_as_it_is_cut_is_not_kept_uncounted() -> None:
    async def run() -> None:
        bodies = Bodies(32 * MB, 20)
        slow = bodies.open()
        came: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def receive() -> Any:
            return await came

        waiting = asyncio.ensure_future(slow.next(receive))
        await asyncio.sleep(0)
        came.set_result({"type": "http.request", "body": bytes(MB), "more_body": False})
        slow.refuse()
        with pytest.raises(Busy):
            await waiting

    asyncio.run(run())


def arrived(bodies: Bodies, clock: Clock, groups: Groups, rates: Sequence[float]) -> Body:
    """A body of which so many bytes a second have come in each of some spans of 5 s."""
    body = Body(bodies, groups)
    bodies._open[body] = None

    async def come(size: int) -> None:
        async def receive() -> Any:
            clock.now += 0.5
            return {"type": "http.request", "body": bytes(size), "more_body": True}

        await body.next(receive)

    for rate in [rate for rate in rates for _ in range(10)]:
        asyncio.run(come(int(rate / 2)))
    return body


@pytest.mark.parametrize(
    ("rates", "slow"),
    [
        ([1000 * KB, 8 * KB, 8 * KB], True),
        ([8 * KB, 8 * KB, 1000 * KB], False),
        ([32 * KB, 32 * KB, 32 * KB], True),
        ([65 * KB] * 9, False),
        ([1000 * KB], False),
        ([], False),
    ],
)
def test_a_body_makes_way_by_its_latest_pace(rates: list[float], slow: bool) -> None:
    """Ten megabytes came at once, and the rest byte by byte: on average, that body was fast for minutes."""
    clock, traffic, eased = Clock(0.0), Traffic(), list[int]()
    bodies = Bodies(64 * MB, 20, clock=clock, traffic=traffic)
    body = arrived(bodies, clock, Client().groups, rates)
    bodies.ease(1)
    assert body.cut is slow
    if slow:
        with pytest.raises(
            Busy, match=r"a request has waited for the memory of bodies, and this one came below 64 KB/s"
        ):
            asyncio.run(body.next(part(1)))
        traffic.eased = lambda: eased.append(traffic.held)
        bodies.close(body)
        assert eased == [0]


def test_the_slow_body_of_who_holds_most_makes_way_first_and_no_whole_one() -> None:
    clock = Clock(0.0)
    bodies = Bodies(64 * MB, 20, clock=clock)
    ann, bob = (Client(address=f"192.0.2.{number}").groups for number in range(2))
    slowest = arrived(bodies, clock, ann, [200 * KB, KB, KB])
    large, other = (arrived(bodies, clock, bob, [1000 * KB, 9 * KB, rate]) for rate in (9 * KB, 8 * KB))
    whole = arrived(bodies, clock, bob, [1000 * KB, KB, KB])
    whole.whole = True
    order = []
    while not all(one.cut for one in (slowest, large, other)):
        before = {one for one in bodies._open if one.cut}
        bodies.ease(1)
        (cut,) = {one for one in bodies._open if one.cut} - before
        order.append(cut)
    bodies.ease(1)
    assert order == [other, large, slowest]
    assert not whole.cut


@pytest.mark.parametrize(("missing", "refused"), [(2000 * KB, True), (2100 * KB, False)])
def test_a_slow_body_stays_where_others_bytes_keep_the_request_out(missing: int, refused: bool) -> None:
    """Two keys kept 240 MB of whole bodies, and 9 of 10 uploads of 0.6 MB beside them were refused for it."""
    clock = Clock(0.0)
    bodies = Bodies(64 * MB, 20, clock=clock)
    ann, bob = (Client(address=f"192.0.2.{number}").groups for number in range(2))
    arrived(bodies, clock, bob, [10 * MB]).whole = True
    slow = arrived(bodies, clock, ann, [200 * KB, KB, KB])
    bodies.ease(missing)
    assert slow.cut is refused
