"""The files of the page: read and compressed once, served under a path that changes with them.

Headers: docs/decisions/0033-web-page.md.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from starlette.requests import Request
from starlette.responses import Response

from edgeserve.api.origin import values
from edgeserve.api.web import bundle, lean
from edgeserve.dataclass import dataclass

FOLDER = Path(__file__).parents[2] / "web"
INDEX, ENTRY, STYLES, VENDOR = "index.html", "js/app.js", "page.css", "vendor/"
BASE, PRELOADS = "{{base}}", "{{preloads}}"
"""Stand in the page for the path of its files, and for links that load all modules at once."""
MEDIA_TYPES: Mapping[str, str] = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
"""Files of other kinds are not served, such as licences."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self' blob:",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types dompurify",
    )
)
SAFE: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(self), microphone=(self), geolocation=()",
    }
)
FOREVER = "public, max-age=31536000, immutable"
"""For a path with the version of the files: other bytes come under another path."""
ASK_AGAIN = "no-cache"


@dataclass(frozen=True, slots=True)
class File:
    """A file as it is kept: compressed, its media type, and its tag."""

    packed: bytes
    media_type: str
    tag: str


class Files:
    """All files of the page, about 80 KB. ``version`` changes with any of them."""

    def __init__(self, folder: Path) -> None:
        texts = {
            path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(folder.rglob("*"))
            if path.suffix in MEDIA_TYPES
        }
        texts = {name: text if name.startswith(VENDOR) else lean.lean(name, text) for name, text in texts.items()}
        texts[ENTRY], own = bundle.joined(texts, ENTRY)
        texts = {name: text for name, text in texts.items() if name == ENTRY or name not in own}
        texts[STYLES] = "".join(texts.pop(name) for name in sorted(texts) if name.endswith(".css"))
        self.version = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:12]
        # Without a slash before it: a proxy may serve the page below a path of its own.
        base = f"web/{self.version}"
        preloads = "".join(f'<link rel="modulepreload" href="{base}/{one}">' for one in lean.graph(texts, ENTRY))
        texts[INDEX] = texts[INDEX].replace(BASE, base).replace(PRELOADS, preloads)
        self._files = {name: _file(name, text.encode()) for name, text in texts.items()}

    @property
    def sizes(self) -> dict[str, int]:
        """Compressed bytes by path."""
        return {name: len(one.packed) for name, one in self._files.items()}

    def page(self, request: Request) -> Response:
        return _answer(request, self._files[INDEX], ASK_AGAIN, "Accept, Accept-Encoding")

    def file(self, request: Request) -> Response | None:
        """A file by ``path`` and ``version`` of the request; None for one that is not there.

        A page from before an update gets today's file, and must not keep it under yesterday's path.
        """
        found = self._files.get(request.path_params["path"])
        caching = FOREVER if request.path_params["version"] == self.version else ASK_AGAIN
        return _answer(request, found, caching, "Accept-Encoding") if found else None


@functools.lru_cache(maxsize=1)
def read() -> Files:
    """The files of the page, read once: some milliseconds."""
    return Files(FOLDER)


def _file(name: str, data: bytes) -> File:
    tag = f'W/"{hashlib.sha256(data).hexdigest()[:16]}"'  # weak: the compressed bytes and the others share it
    return File(gzip.compress(data, 9, mtime=0), MEDIA_TYPES[Path(name).suffix], tag)


def _answer(request: Request, file: File, caching: str, vary: str) -> Response:
    headers = {**SAFE, "Cache-Control": caching, "ETag": file.tag, "Vary": vary}
    if file.tag in (one.strip() for value in values(request.scope, b"if-none-match") for one in value.split(",")):
        return Response(status_code=304, headers=headers)
    if _takes_gzip(request):
        return Response(file.packed, media_type=file.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(gzip.decompress(file.packed), media_type=file.media_type, headers=headers)


def _takes_gzip(request: Request) -> bool:
    codings = [one.replace(" ", "") for value in values(request.scope, b"accept-encoding") for one in value.split(",")]
    return any(one.partition(";")[0] == "gzip" and not one.endswith(";q=0") for one in codings)
