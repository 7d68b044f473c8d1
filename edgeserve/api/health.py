"""The health check, and the root route."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

import edgeserve
from edgeserve.api.ollama.status import RUNNING
from edgeserve.api.web import public
from edgeserve.jobs import ALL_JOBS, JOBS
from edgeserve.residency.host import Host
from edgeserve.residency.pool import Pool


async def health(request: Request) -> Response:
    """503 and the status "failing" once a thread of an engine has ended, because its requests would hang."""
    pool: Pool = request.app.state.pool
    failing = pool.failing()
    return JSONResponse(
        {
            "status": "failing" if failing else "ok",
            "failing": failing,
            "keys": request.app.state.ring.problem or "ok",
            "version": edgeserve.__version__,
            "engines": {
                job: bool(pool.directory.of([job])) for job in ALL_JOBS if job in JOBS or pool.directory.of([job])
            },
            "hosts": {model: gate.host.report for model, gate in pool.gates.items()},
            "drafts": {model: _drafts(gate.host) for model, gate in pool.gates.items() if gate.host.slot_states()},
            "rungs": {model: gate.rung.name.lower() for model, gate in pool.gates.items()},
            "system": {"memory_total_bytes": request.app.state.memory_total()},
        },
        503 if failing else 200,
    )


async def live(request: Request) -> Response:
    """200 while the process answers at all, also while it ends."""
    return JSONResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """Whether new requests have a chance: 503 while the server ends, and once an engine has failed for good."""
    pool: Pool = request.app.state.pool
    failing = pool.failing()
    status = "draining" if pool.ending else "failing" if failing else "ok"
    return JSONResponse({"status": status, "failing": failing}, 200 if status == "ok" else 503)


def _drafts(host: Host) -> dict[str, int]:
    """Tokens that the answers of a model guessed ahead since it was loaded, and those of them that they kept."""
    slots = host.slot_states()
    return {"drafted": sum(one.drafted for one in slots), "accepted": sum(one.accepted for one in slots)}


async def version(request: Request) -> Response:
    return JSONResponse({"version": edgeserve.__version__})


async def root(request: Request) -> Response:
    """The page for a browser, the list of routes for a client that asks for JSON. Ollama's text for its probes."""
    if public.wants_page(request.scope):
        from edgeserve.api.web import page

        return await page.page(request)
    if public.JSON not in request.headers.get("accept", "").lower():
        return PlainTextResponse(RUNNING, headers={"Vary": "Accept"})
    pool: Pool = request.app.state.pool
    return JSONResponse(
        {
            "name": "edgeserve",
            "version": edgeserve.__version__,
            "engines": {model: spec.name for model, spec in pool.configured.items()},
            "native": "/v1/chat, /v1/transcribe/file, /v1/tts/synthesize, /v1/vision/analyze",
            "openai": "/v1/chat/completions, /v1/audio/transcriptions, /v1/audio/speech, /v1/models",
            "rerank": "/v1/rerank",
            "health": "/v1/health",
            "memory": "/memory/stats",
            "ollama": "/api/chat, /api/generate, /api/embed, /api/tags",
            "openapi": "/openapi.json",
        },
        headers={"Vary": "Accept"},
    )
