"""Fetching pictures for clients: every refusal, and the connection to the checked address."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import certifi
import httpx
import pytest
from support.cases import each
from support.http_files import serving_files
from support.pictures import smallest_gif
from support.server import fake_pool, serving, until
from support.site import BYTES, Site, site

from edgeserve.api.limits import Limits
from edgeserve.api.pictures.remote import Remote, certificates
from edgeserve.errors import InvalidRequest, TooLarge

OPEN = Limits(remote_images=True)


async def loopback(host: str, port: int) -> list[str]:
    await asyncio.sleep(0)  # a look-up is a wait
    return ["127.0.0.1"]


def remote(one: Site, hold: Callable[[int], None] = lambda size: None, **settings: Any) -> Remote:
    """Takes loopback for public; asks the site's port."""
    hosts = tuple(f"{name}:{one.port}" for name in ("pictures.test", "other.test"))
    limits = Limits(remote_images=True, **({"remote_image_hosts": hosts} | settings))
    return Remote(limits, hold, resolve=loopback, public=lambda address: True)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_picture_comes_whole_and_no_secret_goes() -> None:
    async def work() -> None:
        async with site() as one:
            one.redirects["/old"] = "/new?size=2"
            held: list[int] = []
            data = await remote(one, held.append).fetch(f"http://pictures.test:{one.port}/old", "image_url")
            assert data == BYTES
            assert sum(held) == len(BYTES)
            assert [seen["path"] for seen in one.seen] == ["/old", "/new?size=2"]
            for seen in one.seen:
                assert seen["host"] == f"pictures.test:{one.port}"
                assert set(seen) == {"path", "host", "user-agent", "accept", "accept-encoding", "connection"}

    run(work())


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/missing", "answered 404"),
        ("/noise", "image_url: "),
        ("/cut", "image_url: "),
        ("/crumbs", "in pieces that are too small"),
        ("/interim", "more than 8 interim answers"),
        ("/loop", "redirects more than 3 times"),
        ("/file", "file address; only http and https"),
        ("/elsewhere", "evil.test is not among remote_image_hosts"),
        ("/secret", "a name or password"),
    ],
)
def test_wrong_answers_of_a_site_are_refused(path: str, why: str) -> None:
    async def work() -> None:
        async with site() as one:
            one.redirects |= {"/loop": "/loop", "/file": "file:///etc/passwd", "/elsewhere": "http://evil.test/x"}
            one.redirects["/secret"] = f"http://me:word@pictures.test:{one.port}/x"
            with pytest.raises(InvalidRequest, match=why) as refused:
                await remote(one).fetch(f"http://pictures.test:{one.port}{path}", "image_url")
            assert refused.value.param == "image_url"
            assert len(one.seen) == (4 if path == "/loop" else 1)

    run(work())


def test_all_pictures_of_a_request_have_one_deadline_however_slowly_they_come() -> None:
    async def work() -> None:
        async with site() as one:
            fetcher = remote(one, remote_seconds=0.3)
            with pytest.raises(InvalidRequest, match=r"not fetched within 0\.3 seconds"):
                await fetcher.fetch(f"http://pictures.test:{one.port}/drip", "image_url")
            with pytest.raises(InvalidRequest, match=r"not fetched within"):
                await fetcher.fetch(f"http://pictures.test:{one.port}/fine", "image_url")

    run(work())


def test_an_endless_picture_ends_where_bodies_do() -> None:
    def hold(size: int) -> None:
        held.append(size)
        if sum(held) > 100_000:
            raise TooLarge("too much")

    held: list[int] = []

    async def work() -> None:
        async with site() as one:
            with pytest.raises(TooLarge):
                await remote(one, hold).fetch(f"http://pictures.test:{one.port}/endless", "image_url")

    run(work())
    assert sum(held) < 400_000


@each("text", ["127.0.0.1", "169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254"])
@each("first", [True, False])
def test_a_name_that_leads_inside_is_not_asked(text: str, first: bool) -> None:
    async def found(host: str, port: int) -> list[str]:
        return [text, "1.1.1.1"] if first else ["1.1.1.1", text]  # one that leads inside is one too many

    async def work() -> None:
        with pytest.raises(InvalidRequest, match=r"rebound\.test is not in the public network"):
            await Remote(OPEN, lambda size: None, resolve=found).fetch("http://rebound.test/x.png", "image_url")

    run(work())


def test_a_redirect_is_checked_as_the_first_address_is() -> None:
    """The second name leads inside. So does the first name when it is looked up again."""
    asked: list[str] = []

    async def found(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if asked == ["pictures.test"] else ["10.0.0.1"]

    async def work() -> None:
        for target in ("other.test", "pictures.test"):
            async with site() as one:
                asked.clear()
                one.redirects["/x"] = f"http://{target}:{one.port}/y"
                hosts = tuple(f"{name}:{one.port}" for name in ("pictures.test", "other.test"))
                limits = Limits(remote_images=True, remote_image_hosts=hosts)
                fetcher = Remote(limits, lambda size: None, resolve=found, public=lambda address: address.is_loopback)
                with pytest.raises(InvalidRequest, match=f"{target} is not in the public network"):
                    await fetcher.fetch(f"http://pictures.test:{one.port}/x", "image_url")
                assert asked == ["pictures.test", target]
                assert [seen["path"] for seen in one.seen] == ["/x"]

    run(work())


@each(
    ("url", "why"),
    [
        ("ftp://example.org/x.png", "ftp address; only http and https"),
        ("x.png", "no address; only http and https"),
        ("http:///x.png", "only http and https"),
        ("http://a:b@example.org/", "name or password"),
        ("http://example.org:22/", "port 22; only 80 and 443"),
        ("https://example.org:80/", "port 80; only"),
        ("http://[::1/", "no address: "),
        ("http://127.0.0.1/", "127.0.0.1 is not in the public network"),
        ("http://2130706433/", "not in the public network"),
        ("http://0x7f.1/", "not in the public network"),
        ("http://localhost/", "not in the public network"),
        ("http://[::ffff:127.0.0.1]/", "not in the public network"),
        ("http://nowhere.invalid/", "nowhere.invalid cannot be found"),
    ],
)
def test_addresses_that_are_not_asked(url: str, why: str) -> None:
    async def work() -> None:
        with pytest.raises(InvalidRequest, match=why):
            await Remote(OPEN, lambda size: None).fetch(url, "image_url")

    run(work())


def key_and_certificate(pem: Path, name: str) -> None:
    """A key of two days, and its certificate for ``name``, which no authority signed."""
    if shutil.which("openssl") is None:
        pytest.skip("the command openssl, which makes a certificate, is not installed")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    made += ["-addext", f"subjectAltName=DNS:{name}", "-keyout", "-", "-out", "-"]
    pem.write_bytes(subprocess.run(made, check=True, capture_output=True).stdout)


@pytest.mark.slow
def test_an_encrypted_address_is_asked_by_name_at_the_address_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = tmp_path / "site.pem"
    key_and_certificate(pem, "pictures.test")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    asked: list[tuple[str, int]] = []

    async def once(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    async def work() -> None:
        async with site(tls) as one:
            urls = [f"https://{name}:{one.port}/x" for name in ("pictures.test", "other.test")]
            limits = Limits(remote_images=True, remote_image_hosts=tuple(url.split("/")[2] for url in urls))
            with pytest.raises(InvalidRequest, match="CERTIFICATE_VERIFY_FAILED"):
                await Remote(limits, lambda size: None, resolve=once, public=bool).fetch(urls[0], "image_url")
            monkeypatch.setattr(certifi, "where", lambda: str(pem))
            certificates.cache_clear()
            fetcher = Remote(limits, lambda size: None, resolve=once, public=bool)
            assert await fetcher.fetch(urls[0], "image_url") == BYTES
            with pytest.raises(InvalidRequest, match=r"not valid for .other\.test"):
                await fetcher.fetch(urls[1], "image_url")
            assert one.names == ["pictures.test", "pictures.test", "other.test"]
            assert asked == [(name, one.port) for name in one.names]  # once each: nothing is looked up again
            one.redirects["/x"] = f"http://pictures.test:{one.port}/x"
            with pytest.raises(InvalidRequest, match="from https to an unencrypted address"):
                await fetcher.fetch(urls[0], "image_url")

    run(work())


def test_a_server_fetches_only_where_it_is_told_to() -> None:
    """End to end, from a file server in this network, which is listed by its address."""
    gif = smallest_gif()
    with serving_files() as files:
        files.data["/x.gif"] = gif
        parts = [{"type": "image_url", "image_url": {"url": f"{files.url}/x.gif"}}]
        asking: Any = {"messages": [{"role": "user", "content": parts}]}
        with serving(fake_pool(), remote_images=True) as running:
            refused = running.client.post("/v1/chat/completions", json=asking)
            assert refused.status_code == 400
            assert "only 80 and 443" in refused.json()["error"]["message"]
            assert not files.requests
        settings: Any = {"remote_image_hosts": (files.url.removeprefix("http://"),), "max_body_mb": 1}
        with serving(fake_pool(), remote_images=True, **settings) as running:
            for path in ("/v1/chat/completions", "/v1/chat"):
                seen = running.client.post(path, json=asking)
                assert f"1 images of {len(gif)} bytes" in seen.text
            files.data["/x.gif"] = gif + bytes(1 << 20)
            large = running.client.post("/v1/chat/completions", json=asking)
            assert large.status_code == 413
            assert "the limit is 1 MB" in large.text
            files.data["/x.gif"] = b"<html>"
            assert running.client.post("/v1/chat/completions", json=asking).status_code == 415


@pytest.mark.slow
def test_names_that_nobody_resolves_delay_no_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of a domain may delay each look-up for half a minute."""
    ended, hanging, found = threading.Event(), [], socket.getaddrinfo

    def look_up(host: Any, *rest: Any, **named: Any) -> Any:
        if host == "slow.example":
            hanging.append(host)
            ended.wait(20)
        return found(host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    asked = {
        "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://slow.example/"}}]}]
    }
    with serving(fake_pool(), remote_images=True) as running, ThreadPoolExecutor(40) as threads:
        try:
            asking = [
                threads.submit(httpx.post, f"{running.url}/v1/chat/completions", json=asked, timeout=30)
                for _ in range(40)
            ]
            until(lambda: len(hanging) >= 4)
            large = {"prompt": "word " * 20_000}
            assert running.client.post("/v1/chat", json=large, timeout=10).status_code in (200, 400)
            assert running.client.get("/memory/stats", timeout=10).status_code == 200
            assert running.client.post("/v1/audio/speech", json={"input": "Hi."}, timeout=10).status_code == 200
        finally:
            ended.set()
        assert {one.result().status_code for one in asking} <= {400}


def test_an_address_of_megabytes_is_refused_by_its_length() -> None:
    with pytest.raises(InvalidRequest, match="at most 8192 characters"):
        asyncio.run(Remote(OPEN, lambda size: None).fetch("http://" + "a" * 5_000_000, "image_url"))
