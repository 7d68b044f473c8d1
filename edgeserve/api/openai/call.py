"""The call of chat completions and completions: their requests on one lease, folded into one completion."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from edgeserve.api import models
from edgeserve.api.line import Call
from edgeserve.api.openai.renderer import Choice, Completion
from edgeserve.api.openai.sampling import Sampled
from edgeserve.api.timings import Timings
from edgeserve.messages import ChatRequest


def completion_call(
    request: Request, asked: Sampled, model: str, requests: Sequence[ChatRequest], choices: Sequence[Choice]
) -> Call:
    """The call for ``requests``, each with its choice."""
    timings = Timings()
    renderer = Completion(
        models.name(request.app.state.pool, model, asked.model),
        choices,
        asked.runs(),
        stream=asked.stream,
        usage_wanted=asked.usage_wanted,
        kept=asked.n,
        timings=timings,
        timed=asked.timings_per_token,
    )
    return Call(
        model,
        requests,
        renderer,
        asked.keep_alive,
        apart=asked.seed is not None,
        names=asked.names(),
        # 8,000 tokens with 20 alternatives each take a second to write.
        threaded=requests[0].logprobs is not None and not asked.stream,
        begun=timings.begin,
    )
