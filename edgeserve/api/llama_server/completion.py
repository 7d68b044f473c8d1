"""llama-server's own completion: raw text or tokens continued, without a chat template (tools/server/README.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

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

MAX_FIELDS, FIELD_CHARS = 64, 128
"""Fields of ``response_fields``, and characters of each: all of them are looked up for each token of a stream."""


class Continued(Sampled):
    """The fields of raw prompts that the model continues from."""

    n = Integer("accepted where it is 1", 1, 1, default=1)
    best_of = Integer("accepted where it is 1", 1, 1)
    n_probs = Integer("alternatives told with each token; 0: none", 0, MAX, default=0)
    return_tokens = Only(False)
    response_fields = Texts(
        'the only fields of the answer to tell, such as "content" or "timings/prompt_n"; none: all',
        MAX_FIELDS,
        chars=FIELD_CHARS,
    )

    def call(self, request: Request, names: Mapping[str, str], **prompt: Any) -> Call:
        """The call of an answer to ``prompt``, these fields of a ``ChatRequest``. ``names``: as in ``Call``."""
        pool = request.app.state.pool
        model = models.choose(pool, self.model, CHAT)
        wanted = ChatRequest(
            **prompt,
            max_tokens=self.most_tokens(),
            stop=self.stops(),
            sampling=self.sampling(),
            **dataclasses.asdict(self.form()),
            logprobs=self.n_probs or None,
            salt=self.salted(request),
            adapters=self.adapters(pool, model),
            min_tokens=self.min_tokens,
            ignore_eos=self.ignore_eos,
            stop_tokens=self.stop_token_ids,
            context=self.num_ctx,
            count=self.counted(),
            slot=self.id_slot,
        )
        told = Asked(models.name(pool, model, self.model), wanted, self.response_fields)
        timings = Timings()
        renderer = Answer(told, timings, stream=self.stream)
        return Call(
            model,
            [wanted],
            renderer,
            self.keep_alive,
            threaded=bool(self.n_probs),
            begun=timings.begin,
            names={**self.names(), **names},
        )


class Completing(Continued):
    """The body of POST /completion."""

    prompt = Prompts("a text, or its tokens", 1)


async def completion(request: Request) -> Call:
    asked = await read_json(request, Completing)
    return asked.call(request, {}, prompt=asked.prompt[0])
