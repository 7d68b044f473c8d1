"""The prompts of answers: as requests, without their older half, and read before the answer is asked for."""

from __future__ import annotations

import contextlib
import dataclasses

from edgeserve.api.realtime.config import Config
from edgeserve.engine import Rung
from edgeserve.messages import ChatRequest, Message, Sampling, TextPart
from edgeserve.residency.pool import Pool


def asked(config: Config, messages: list[Message], salt: str) -> ChatRequest:
    """The request for an answer to ``messages``."""
    head = [Message("system", (TextPart(config.settings.instructions),))] if config.settings.instructions else []
    return ChatRequest(
        (*head, *messages),
        max_tokens=config.settings.max_output_tokens,
        sampling=Sampling(temperature=config.settings.temperature),
        tools=config.offered,
        tool_choice=config.tool_choice,
        salt=salt,
        thinking=False,  # nobody hears thoughts, and everybody waits for them
    )


def shortened(messages: list[Message]) -> list[Message]:
    """The later half. It begins with no result whose call is gone."""
    rest = messages[(len(messages) + 1) // 2 :]
    while len(rest) > 1 and rest[0].role == "tool":
        rest = rest[1:]
    return rest


async def read_ahead(pool: Pool, model: str, request: ChatRequest) -> None:
    """Let a hot model read a prompt into its cache, in short pieces. It ends as soon as any engine has other work.

    Raises the errors of a lease and of the engine.
    """
    # Without the beginning of the answer, the prompt of the answer only adds tokens: not every model can drop some.
    if model not in pool.gates or pool.gates[model].rung is not Rung.HOT or _leases(pool):
        return
    wanted = dataclasses.replace(request, max_tokens=0, count="each", ahead=True, generation_prompt=False)
    async with await pool.lease(model) as lease, contextlib.aclosing(lease.run_all([wanted])) as events:
        async for _ in events:
            if _leases(pool) > 1:
                return


def _leases(pool: Pool) -> int:
    return sum(gate.leases for gate in pool.gates.values())
