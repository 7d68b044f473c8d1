"""The figures and facts of an engine, as a host gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from edgeserve.engine import Engine, Footprint, ModelSpec, Rung, SpeechToText, TextToSpeech
from edgeserve.engine_abilities import RemotePart
from edgeserve.errors import NotSupported
from edgeserve.hosts.abilities import Abilities
from edgeserve.messages import DetectRequest, Request, SpeechChances
from edgeserve.residency.work import METHODS
from edgeserve.slots import SlotState


class Facts:
    """The part of a ``Host`` that moves nothing and makes no answer. Any thread."""

    def __init__(self, engine: Engine, abilities: Abilities) -> None:
        self.engine = engine
        self._abilities = abilities

    @property
    def spec(self) -> ModelSpec:
        return self.engine.spec

    @property
    def rung(self) -> Rung:
        return self.engine.rung

    @property
    def pid(self) -> int | None:
        return None

    def estimate(self) -> Footprint:
        return self.engine.estimate()

    def footprint(self) -> Footprint:
        return self.engine.footprint()

    def savings(self) -> Mapping[str, int]:
        thrifty = self._abilities.thrifty
        return thrifty.savings() if thrifty else {}

    @property
    def context_tokens(self) -> int | None:
        contextual = self._abilities.contextual
        return contextual.context_tokens if contextual else None

    @property
    def remote_parts(self) -> tuple[RemotePart, ...]:
        return ()

    def slot_states(self) -> tuple[SlotState, ...]:
        slotted = self._abilities.slotted
        return slotted.slot_states() if slotted else ()

    def voices(self) -> tuple[str, ...]:
        return cast(TextToSpeech, self.engine).voices()

    def languages(self) -> tuple[str, ...]:
        return cast(SpeechToText, self.engine).languages()

    def prefetch_files(self) -> Iterable[Path]:
        prefetchable = self._abilities.prefetchable
        return prefetchable.prefetch_files() if prefetchable else self.spec.files.values()

    def check_kind(self, request: Request) -> None:
        if type(request) not in self._abilities.kinds:
            method = METHODS[type(request)]
            raise NotSupported(f"{self.spec.name} serves {self.spec.job}; it cannot {method}")

    @property
    def detects(self) -> bool:
        return self._abilities.detecting is not None

    def detect(self, request: DetectRequest) -> SpeechChances:
        if (detecting := self._abilities.detecting) is None:
            raise NotSupported(f"{self.spec.name} has no detector of speech")
        return detecting.detect(request)
