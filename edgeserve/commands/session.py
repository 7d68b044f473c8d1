"""One engine, opened in this process for one command."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from typing import Any, Protocol

from edgeserve import logs
from edgeserve.commands import Call
from edgeserve.commands.served import find_served
from edgeserve.config import tables
from edgeserve.conversations import STATES_MB
from edgeserve.errors import NotConfigured
from edgeserve.jobs import Job
from edgeserve.messages import Event, Request
from edgeserve.model_settings import ModelSettings
from edgeserve.residency.pool import Pool


class Asked(Protocol):
    """An engine that answers a command: in this process, or behind a running server. A context manager."""

    def __enter__(self) -> Asked: ...

    def __exit__(self, *ignored: object) -> None: ...

    def ask(self, request: Request, take: Callable[[Any], object]) -> None:
        """Hand each event of the answer to ``take``. Raises EdgeserveError."""
        ...


class Session:
    """The pool's one engine behind its gate and governor, as in the server. A context manager.

    Ctrl-C cancels the request within one token or segment, and leaves ``ask`` as KeyboardInterrupt. The session can be
    asked again.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        (self._model,) = pool.gates
        self._runner = asyncio.Runner()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *ignored: object) -> None:
        try:
            self._runner.run(self._pool.stop())
        finally:
            self._runner.close()

    def ask(self, request: Request, take: Callable[[Any], object]) -> None:
        """Hand each event of the answer to ``take``. Raises EdgeserveError."""
        self._runner.run(self._ask(request, take))

    async def _ask(self, request: Request, take: Callable[[Event], object]) -> None:
        async with await self._pool.lease(self._model) as lease:
            async for event in lease.run(request):
                take(event)


def without_traceback(record: logging.LogRecord) -> bool:
    """Drop records of exceptions: the command itself reports them in one line."""
    return record.exc_info is None


def open_session(call: Call, job: Job) -> Asked:
    """The running server, where one serves ``job``; else the configured engine of ``job`` and no other, built here.

    Raises NotConfigured, ModelMissing and ConfigError, and the error of a server that the call names.
    """
    if (served := find_served(call, job)) is not None:
        return served
    config = call.config()
    of_job = [model for model, one in config.models.items() if one.job == job]
    if not of_job:
        raise NotConfigured(
            f'no {job} model is configured; name one with --model, or in models.toml under [{job}] as model = "…"; '
            "edgeserve list --all shows what there is"
        )
    level = call.args.log_level or "warning"
    logs.configure(level)
    if level != "debug":
        for handler in logging.getLogger().handlers:
            handler.addFilter(without_traceback)
    model = next((one for one in of_job if config.models[one].default), job if job in of_job else of_job[0])
    only = dataclasses.replace(config, models={model: _without_states(config.models[model])})
    return Session(call.pool(only))


def _without_states(settings: ModelSettings) -> ModelSettings:
    """Keep no conversation on disk, unless models.toml says so: it is over when the command ends."""
    if STATES_MB not in tables()[settings.job]:
        return settings
    return dataclasses.replace(settings, options={STATES_MB: 0, **settings.options})
