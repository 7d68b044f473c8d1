"""The page and its files over HTTP: who gets them, how they are kept, and under which policy."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator

import httpx
import pytest
from support.cases import each
from support.server import Running, fake_pool, serving

from edgeserve.api.web import public

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"}


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(fake_pool(["llm"])) as running:
        yield running


@pytest.fixture(scope="module")
def locked() -> Iterator[Running]:
    with serving(fake_pool(["llm"]), api_key="sesame") as running:
        yield running


def base_of(running: Running) -> str:
    found = re.search(r'src="(web/[0-9a-f]{12})/js/app\.js"', running.client.get("/", headers=BROWSER).text)
    assert found
    return f"/{found[1]}"


@each(
    ("accept", "kind"),
    [
        (BROWSER["Accept"], "text/html"),
        ("text/html", "text/html"),
        ("text/html, application/json", "text/html"),
        ("application/json, text/html", "application/json"),
        ("application/json", "application/json"),
        ("*/*", "text/plain"),
        ("", "text/plain"),
    ],
)
def test_the_root_answers_as_the_client_asks(running: Running, accept: str, kind: str) -> None:
    answer = running.client.get("/", headers={"Accept": accept})
    assert answer.status_code == 200
    assert answer.headers["content-type"].partition(";")[0] == kind
    assert "Accept" in answer.headers["vary"]


def test_a_strict_policy_stands_on_the_page_and_its_files(running: Running) -> None:
    for path in ("/", f"{base_of(running)}/js/app.js"):
        headers = running.client.get(path, headers=BROWSER).headers
        rules = dict(one.strip().split(" ", 1) for one in headers["content-security-policy"].split(";"))
        assert rules["default-src"] == "'none'"
        assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
        assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
        assert rules["require-trusted-types-for"] == "'script'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_the_page_is_asked_for_again_and_its_files_are_not(running: Running) -> None:
    first = running.client.get("/", headers=BROWSER)
    assert first.headers["cache-control"] == "no-cache"
    again = running.client.get("/", headers={**BROWSER, "If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = running.client.get("/", headers={**BROWSER, "If-None-Match": 'W/"0"'})
    assert other.status_code == 200
    file = running.client.get(f"{base_of(running)}/js/app.js")
    assert file.headers["cache-control"] == "public, max-age=31536000, immutable"


def test_a_page_from_before_an_update_gets_files_that_no_cache_keeps(running: Running) -> None:
    answer = running.client.get("/web/0123456789ab/js/app.js")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("js/app.js", "text/javascript; charset=utf-8"),
        ("page.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("vendor/purify.min.js", "text/javascript; charset=utf-8"),
    ],
)
def test_files_have_their_types_compressed_and_not(running: Running, path: str, kind: str) -> None:
    url = f"{base_of(running)}/{path}"
    packed = running.client.send(running.client.build_request("GET", url), stream=True)
    raw = b"".join(packed.iter_raw())
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["content-type"] == kind
    for coding in ("identity", "gzip;q=0", "br"):
        plain = running.client.get(url, headers={"Accept-Encoding": coding})
        assert "content-encoding" not in plain.headers
        assert plain.content == gzip.decompress(raw)
        assert "Accept-Encoding" in plain.headers["vary"]


@each("path", ["", "js", "js/none.js", "VENDOR.md", "licences/htm.txt", "../../api/auth.py", "%2e%2e/%2e%2e/config.py"])
def test_nothing_else_is_served(running: Running, path: str) -> None:
    assert running.client.get(f"{base_of(running)}/{path}").status_code == 404


def test_a_key_is_asked_for_by_the_api_and_not_by_the_page(locked: Running) -> None:
    client = locked.client
    assert client.get("/", headers=BROWSER).status_code == 200
    assert client.head("/", headers=BROWSER).status_code == 200
    assert client.get(f"{base_of(locked)}/js/app.js").status_code == 200
    assert client.get("/", headers={"Accept": "application/json"}).status_code == 401
    assert client.get("/").status_code == 401
    assert client.post("/", headers=BROWSER).status_code == 401
    for path in ("/v1/models", "/web/../v1/models", "//v1/models", "/web", "/v1/chat"):
        assert client.get(path, headers=BROWSER).status_code == 401, path


@pytest.mark.parametrize("path", ["/web/x/../../v1/models", "/web/x/%2e%2e/%2e%2e/v1/models", "/web/x//../v1/models"])
def test_no_path_below_the_files_leads_to_the_api(locked: Running, path: str) -> None:
    url = httpx.URL(locked.url.rstrip("/")).copy_with(raw_path=path.encode())
    assert locked.client.get(url).status_code in (401, 404)


def test_the_name_of_the_host_is_checked_as_everywhere(running: Running) -> None:
    headers = {**BROWSER, "Host": "rebound.example"}
    assert running.client.get("/", headers=headers).status_code == 403
    assert running.client.get("/web/x/js/app.js", headers=headers).status_code == 403


def test_only_http_and_reading_are_public() -> None:
    accept = [(b"accept", b"text/html")]
    assert public.is_public({"type": "http", "method": "GET", "path": "/", "headers": accept})
    assert not public.is_public({"type": "http", "method": "POST", "path": "/", "headers": accept})
    assert not public.is_public({"type": "http", "method": "GET", "path": "/", "headers": []})
    assert not public.is_public({"type": "http", "method": "DELETE", "path": "/web/x/y", "headers": []})
    assert not public.is_public({"type": "websocket", "path": "/web/x/y", "headers": accept})
