"""Reranking without a runtime; ``edgeserve.engines.fake.engine`` says what the fakes do, and their options."""

from __future__ import annotations

from collections.abc import Iterator

from edgeserve.engine import Cancel
from edgeserve.engines.fake.engine import FakeEngine
from edgeserve.errors import ContextOverflow
from edgeserve.messages import RerankEvent, RerankRequest


class FakeRerank(FakeEngine):
    """The logit of a document is the number of the query's words in it, less 1. Context: option ``context`` (1024)."""

    def rerank(self, request: RerankRequest, cancel: Cancel) -> Iterator[RerankEvent]:
        self._begin()
        query = request.query.split()
        room = min(int(self._number("context", 1024)), request.max_tokens or 1 << 30) - len(query)
        if room < 1:
            raise ContextOverflow(f"the query is {len(query)} words long, which leaves no room", param="query")
        longest = min(room, request.max_document_tokens or room)
        for number, document in enumerate(request.documents):
            if cancel.is_set():
                return
            words = document.split()
            if len(words) > longest and not request.cut:
                text = f"document {number} is {len(words)} tokens long; there is room for {longest}"
                raise ContextOverflow(text, param="documents")
            self._work()
            read = words[:longest]
            yield RerankEvent(len(set(query) & set(read)) - 1.0, len(query) + len(read), len(words) > longest)
