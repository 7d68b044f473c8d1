"""Names and pages that a server without a key answers to, as rules and over HTTP."""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gates import engine_of
from support.server import Running, fake_pool, serving
from support.sounds import FORMS, encoded, melody

from edgeserve.api.origin import Page, Rules, Site, read_host, read_origin
from edgeserve.api.routes import ENTRIES
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3:80", "[fe80::1]:8080", "localhost:1", "BOX", "box.:9"])
def test_names_that_nobody_else_can_give(host: str) -> None:
    assert asked(host=host) is None


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "CROSS-SITE", "anything"])
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
def test_what_passes_is_an_address_or_a_known_name_for_any_reader(text: str) -> None:
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


@pytest.mark.parametrize(
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
def test_what_cannot_be_listed(hosts: list[str], pages: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Rules(hosts, pages)


def test_the_machines_own_names() -> None:
    assert own_names("Kitchen.example.org") == {"kitchen.example.org", "kitchen"}
    assert own_names("box") == {"box"}
    assert own_names("no name") == own_names("") == own_names("10.0.0.1") == set()
    assert read_origin("http://a") == Page("http", Site("a", 80))


@pytest.fixture(scope="module")
def open_server() -> Iterator[Running]:
    with serving(fake_pool(), allowed_hosts=("named.example",), cors_origins=("https://app.example.org",)) as running:
        yield running


CHAT = b'{"prompt": "hello"}'


def ask(running: Running, content_type: str = "application/json", **headers: str) -> httpx.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return running.client.post("/v1/chat", content=CHAT, headers={"Content-Type": content_type, **given})


@pytest.mark.parametrize("entry", [one for one in ENTRIES if one.method != "GET"], ids=lambda one: one.path)
def test_no_route_obeys_a_foreign_page(open_server: Running, entry: Any) -> None:
    steps = [list(engine_of(gate).steps) for gate in open_server.pool.gates.values()]
    for headers in ({"Origin": "https://far.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = open_server.client.request(entry.method, entry.path.format(engine="asr", session="x"), headers=headers)
        assert answer.status_code == 403, answer.text
        assert answer.json()["error"]["code"] == "forbidden"
        assert "access-control-allow-origin" not in answer.headers
    assert steps == [list(engine_of(gate).steps) for gate in open_server.pool.gates.values()]


@pytest.mark.parametrize("path", [one.path for one in ENTRIES if one.method == "GET" and "{" not in one.path])
def test_no_reading_moves_anything(open_server: Running, path: str) -> None:
    """Why pages of other sites may send GETs, whose answers their browser keeps from them."""
    client, gates = open_server.client, open_server.pool.gates.values()
    before = [(gate.rung, gate.leases) for gate in gates]
    assert client.get(path, headers={"Origin": "https://far.example"}).status_code == 200
    assert [(gate.rung, gate.leases) for gate in gates] == before
    assert client.get("/memory/evictions").json() == []


def test_a_name_that_was_made_to_point_here_reads_nothing(open_server: Running) -> None:
    for path in ("/", "/v1/health", "/v1/models", "/memory/stats", "/nowhere"):
        answer = open_server.client.get(path, headers={"Host": "rebound.example"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    assert open_server.client.get("/v1/health", headers={"Host": "named.example:9"}).status_code == 200
    assert open_server.client.get("/v1/health", headers={"Host": socket.gethostname()}).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
def test_a_browser_says_that_it_sends_json(open_server: Running, kind: str) -> None:
    own = open_server.url.rstrip("/")
    for headers in (
        {"Origin": own},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Dest": "empty"},
    ):
        answer = ask(open_server, kind, **headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_media")
        assert "application/json" in answer.json()["error"]["message"]
        assert ask(open_server, "Application/JSON; charset=utf-8", **headers).status_code == 200
        assert ask(open_server, "application/vnd.api+json", **headers).status_code == 200
    assert ask(open_server, kind).json() == {"text": "hello"}, "a program may say what it likes"


def test_listed_pages_read_answers_and_errors(open_server: Running) -> None:
    page = "https://app.example.org"
    wav = encoded(melody(1), FORMS["wav"])
    client = open_server.client
    for answer, status in (
        (ask(open_server, Origin=page, Sec_Fetch_Site="cross-site"), 200),
        (client.get("/v1/models", headers={"Origin": page}), 200),
        (client.post("/v1/chat", json={}, headers={"Origin": page}), 400),
        (client.get("/nowhere", headers={"Origin": page}), 404),
        (client.put("/v1/chat", headers={"Origin": page}), 405),
        (client.get("/v1/models", headers={"Origin": page, "Host": "rebound.example"}), 403),
        (client.post("/v1/transcribe/file", files={"audio": wav}, headers={"Origin": page}), 200),
    ):
        assert answer.status_code == status, answer.text
        assert answer.headers["access-control-allow-origin"] == page
        assert "X-Request-Id" in answer.headers["access-control-expose-headers"]
        assert "Origin" in answer.headers["vary"]
    assert "access-control-allow-origin" not in client.get("/", headers={"Origin": "https://far.example"}).headers


@pytest.mark.unforeseen
def test_what_nobody_foresaw_can_be_read_by_listed_pages() -> None:
    with serving(fake_pool(["llm"]), cors_origins=("https://app.example.org",)) as running:
        running.app.state.pool = None
        answer = running.client.get("/v1/models", headers={"Origin": "https://app.example.org"})
    assert answer.status_code == 500
    assert answer.headers["access-control-allow-origin"] == "https://app.example.org"


@pytest.mark.parametrize("api_key", ["", "sesame"])
def test_a_preflight_is_answered_for_listed_pages_without_a_key(api_key: str) -> None:
    asking = {
        "Origin": "https://app.example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
        "Access-Control-Request-Private-Network": "true",
    }
    with serving(fake_pool(["llm"]), cors_origins=("https://app.example.org",), api_key=api_key) as running:
        answer = running.client.options("/v1/chat/completions", headers=asking)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == "https://app.example.org"
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert answer.headers["access-control-allow-headers"] == "authorization,content-type,x-stainless-os"
        assert answer.headers["access-control-allow-private-network"] == "true"
        assert answer.headers["x-request-id"]
        other = running.client.options("/v1/chat", headers=asking | {"Origin": "https://far.example"})
        assert other.status_code == (401 if api_key else 405)
        assert "access-control-allow-origin" not in other.headers
        refused = running.client.post("/v1/chat", json={}, headers={"Origin": "https://app.example.org"})
        assert refused.status_code == (401 if api_key else 400)
        assert refused.headers["access-control-allow-origin"] == "https://app.example.org"


def test_with_a_key_any_name_and_page_that_has_it_may() -> None:
    headers = {"Authorization": "Bearer sesame", "Host": "ai.example.net", "Origin": "https://far.example"}
    with serving(fake_pool(["llm"]), api_key="sesame") as running:
        assert running.client.post("/v1/chat", json={"prompt": "hello"}, headers=headers).status_code == 200


def test_an_absolute_target_does_not_stand_in_place_of_the_host(open_server: Running) -> None:
    port = open_server.client.base_url.port
    told = b""
    with socket.create_connection(("127.0.0.1", port or 0), timeout=10) as client:
        client.sendall(b"GET http://127.0.0.1/v1/health HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n\r\n")
        while piece := client.recv(65536):
            told += piece
    assert told.startswith(b"HTTP/1.1 403")
    assert json.loads(told.partition(b"\r\n\r\n")[2])["error"]["code"] == "forbidden"
