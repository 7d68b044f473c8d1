"""Names and pages that a server without a key answers to: the rules."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.api.origin import Page, Rules, Site, read_host, read_origin
from edgeserve.app import own_names
from edgeserve.errors import ConfigError

RULES = Rules(["box", "ai.example.org"], ["https://app.example.org", "tauri://localhost", "http://10.0.0.5:3000"])
FOREIGN = (
    *("https://far.example", "null", "", "http://127.0.0.1:1", "http://localhost", "file://", "http://127.0.0.1"),
    *("https://app.example.org:444", "http://app.example.org", "https://app.example.org.far.example"),
    *("https://far.example@127.0.0.1:8080", "http://127.0.0.1:8080/", "http://127.0.0.1:8080.far.example"),
    *("http://127.0.0.1:8080 https://app.example.org", "HTTP://127.0.0.1:8080", "ws://127.0.0.1:8080"),
    *("tauri://127.0.0.1:8080", "http://[", "http://127.0.0.1:808０", "http://127.0.0.1:8080\x00"),
)


def asked(method: str = "POST", host: str = "127.0.0.1:8080", kind: str = "http", **headers: str) -> str | None:
    given = [(name.replace("_", "-").encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return RULES.refusal({"type": kind, "method": method, "headers": [(b"host", host.encode("latin-1")), *given]})


@each(
    ("text", "name", "port"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("LocalHost", "localhost", None),
        ("box.lan.:80", "box.lan", 80),
        ("[::1]:8080", "::1", 8080),
        ("[0:0::1]", "::1", None),
        ("my_service:8080", "my_service", 8080),
    ],
)
def test_a_host_is_read_in_one_spelling(text: str, name: str, port: int | None) -> None:
    assert read_host(text) == Site(name, port)


NO_HOSTS = (
    *("", ":80", "a:", "a:0", "a:99999", "a:80:80", "user@127.0.0.1", "127.0.0.1@far.example", "a b", "a,b", "[::1"),
    *("[127.0.0.1]", "[far.example]", "::1", "a/b", "a\\b", "a#b", "a?b", "-", ".", "..", "a:８０", "a\n", "[::1]x"),
    *("http://127.0.0.1", "x" * 300, "ä.example", "127.0.0.1%00", "*"),
)


def test_a_text_that_names_no_host_is_none() -> None:
    assert [text for text in NO_HOSTS if read_host(text) is not None] == []


@each("host", ["127.0.0.1", "10.1.2.3:80", "[fe80::1]:8080", "localhost:1", "BOX", "box.:9"])
def test_names_that_nobody_else_can_give(host: str) -> None:
    assert asked(host=host) is None


@each(
    "host",
    [
        *("far.example", "127.0.0.1.far.example:8080", "localhost.far.example", "local", "xlocal", "box.far.example"),
        *(
            "2130706433",
            "127.1",
            "0x7f.1",
            "example.org",
            "far.ai.example.org",
            "localhost@far.example",
            "",
            "a.local.b",
        ),
    ],
)
def test_any_other_name_is_refused_whatever_is_asked(host: str) -> None:
    for method in ("GET", "HEAD", "OPTIONS", "POST", "DELETE"):
        assert "allowed_hosts" in (asked(method, host) or ""), method
        assert asked(method, host, "websocket"), method


def test_names_on_the_list_and_of_the_local_network() -> None:
    assert asked(host="ai.example.org:8080") is None
    assert asked(host="Kitchen.LOCAL.:8080") is None


@pytest.mark.parametrize("hosts", [[], [b"127.0.0.1", b"127.0.0.1"], [b"127.0.0.1", b"far.example"]])
def test_no_host_and_several_are_refused(hosts: list[bytes]) -> None:
    scope = {"type": "http", "method": "GET", "headers": [(b"host", one) for one in hosts]}
    assert RULES.refusal(scope)


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_foreign_page_changes_nothing(kind: str) -> None:
    for origin in FOREIGN:
        assert asked(kind=kind, origin=origin), origin
        assert asked(kind=kind, origin=origin, sec_fetch_site="same-origin"), origin
        assert (asked("GET", kind=kind, origin=origin) is None) is (kind == "http"), origin


@each(
    ("origin", "host"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080"),
        ("http://localhost:8080", "localhost.:8080"),
        ("http://[::1]:8080", "[::1]:8080"),
        ("http://box", "box:80"),
        ("https://ai.example.org", "ai.example.org"),
        ("https://ai.example.org", "ai.example.org:443"),
        ("http://192.168.1.20:8080", "192.168.1.20:8080"),
    ],
)
def test_a_page_of_the_server_itself_may(origin: str, host: str) -> None:
    assert asked(host=host, origin=origin) is None
    assert asked(host=host, origin=origin, sec_fetch_site="same-origin") is None
    assert asked(host=host, origin=origin, sec_fetch_site="cross-site")


@pytest.mark.parametrize("origin", ["https://app.example.org", "https://app.example.org:443", "tauri://localhost"])
def test_pages_on_the_list_may(origin: str) -> None:
    assert asked(origin=origin, sec_fetch_site="cross-site") is None
    assert asked(kind="websocket", origin=origin) is None


def test_two_origins_are_none() -> None:
    both = [(b"host", b"127.0.0.1:8080"), (b"origin", b"https://app.example.org"), (b"origin", b"https://far.example")]
    assert RULES.refusal({"type": "http", "method": "POST", "headers": both})
    assert RULES.refusal({"type": "http", "method": "POST", "headers": [both[0], both[1], both[1]]})


@each("site", ["cross-site", "same-site", "", "CROSS-SITE", "anything"])
def test_a_browser_that_tells_no_origin_is_believed_where_it_comes_from(site: str) -> None:
    assert asked(sec_fetch_site=site)
    assert asked("GET", sec_fetch_site=site) is None
    assert asked(sec_fetch_site="none") is None
    assert asked() is None, "a program"


HOSTS = st.one_of(
    st.from_regex(r"[a-z0-9.:\[\]@_%-]{1,30}", fullmatch=True),
    st.text(st.characters(max_codepoint=255), max_size=40),
    st.sampled_from(["127.0.0.1", "localhost", "[::1]", "box", "a.local"]).flatmap(
        lambda good: st.text("a.:@[]0 \t\x00%/#?\\,", max_size=6).map(lambda junk: good + junk)
    ),
)


@given(HOSTS)
def test_a_host_that_passes_is_an_address_or_a_known_name_for_any_reader(text: str) -> None:
    site = read_host(text)
    if site is None or not RULES.knows(site):
        return
    name = urlsplit(f"//{text}").hostname  # another reader of the same header
    assert name is not None
    assert (
        name.rstrip(".") in ("localhost", "box", "ai.example.org")
        or name.rstrip(".").endswith(".local")
        or (ipaddress.ip_address(name.rstrip(".")))
    )


@given(st.one_of(st.sampled_from(FOREIGN), HOSTS.map(lambda host: f"http://{host}")), HOSTS)
def test_only_an_origin_of_that_very_host_is_its_own(origin: str, host: str) -> None:
    page, here = read_origin(origin), read_host(host)
    if page is not None and here is not None and page.is_of(here):
        theirs, ours = urlsplit(origin), urlsplit(f"//{host}")
        assert read_host(theirs.netloc) == read_host(ours.netloc) or {theirs.port, ours.port} <= {None, 80, 443}
        assert str(theirs.hostname).rstrip(".") == str(ours.hostname).rstrip(".") or page.site.is_address


@each(
    ("hosts", "pages", "told"),
    [
        (["a:80"], [], "allowed_hosts = 'a:80'"),
        (["*"], [], "allowed_hosts"),
        ([], ["*"], "cors_origins = '\\*'"),
        ([], ["null"], "cors_origins"),
        ([], ["app.example.org"], "cors_origins"),
        ([], ["https://app.example.org/"], "cors_origins"),
    ],
)
def test_wrong_entries_of_the_lists_are_refused(hosts: list[str], pages: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Rules(hosts, pages)


def test_the_machines_own_names() -> None:
    assert own_names("Kitchen.example.org") == {"kitchen.example.org", "kitchen"}
    assert own_names("box") == {"box"}
    assert own_names("no name") == own_names("") == own_names("10.0.0.1") == set()
    assert read_origin("http://a") == Page("http", Site("a", 80))
