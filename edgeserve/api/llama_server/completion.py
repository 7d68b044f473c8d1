"""llama-server's own completion: raw text or tokens continued, without a chat template (tools/server/README.md)."""

from __future__ import annotations

import dataclasses

from starlette.requests import Request

from edgeserve.api import models
from edgeserve.api.json_body import read_json
from edgeserve.api.line import Call
from edgeserve.api.llama_server.answer import Answer, Asked
from edgeserve.api.openai.accepted import Only
from edgeserve.api.openai.logprobs import MAX
from edgeserve.api.openai.prompts import Prompts
from edgeserve.api.openai.sampling import Sampled
from edgeserve.api.timings import Timings
from edgeserve.api.values import Integer, Texts
from edgeserve.jobs import CHAT
from edgeserve.messages import ChatRequest

MAX_FIELDS = 64


class Completing(Sampled):
    """The body of POST /completion."""

    n = Integer("accepted where it is 1", 1, 1, default=1)
    best_of = Integer("accepted where it is 1", 1, 1)
    prompt = Prompts("a text, or its tokens", 1)
    n_probs = Integer("alternatives told with each token; 0: none", 0, MAX, default=0)
    return_tokens = Only(False)
    response_fields = Texts("the only fields of the answer to tell; none: all", MAX_FIELDS)


async def completion(request: Request) -> Call:
    asked = await read_json(request, Completing)
    pool = request.app.state.pool
    model = models.choose(pool, asked.model, CHAT)
    wanted = ChatRequest(
        prompt=asked.prompt[0],
        max_tokens=asked.most_tokens(),
        stop=asked.stops(),
        sampling=asked.sampling(),
        **dataclasses.asdict(asked.form()),
        logprobs=asked.n_probs or None,
        salt=asked.salted(request),
        adapters=asked.adapters(pool, model),
        min_tokens=asked.min_tokens,
        ignore_eos=asked.ignore_eos,
        stop_tokens=asked.stop_token_ids,
        context=asked.num_ctx,
    )
    told = Asked(models.name(pool, model, asked.model), wanted, frozenset(asked.response_fields))
    timings = Timings()
    renderer = Answer(told, timings, stream=asked.stream)
    return Call(model, [wanted], renderer, asked.keep_alive, threaded=bool(asked.n_probs), begun=timings.begin)
