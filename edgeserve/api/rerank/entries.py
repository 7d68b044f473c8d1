"""The routes of reranking and scores, by the paths of several makers."""

from __future__ import annotations

from edgeserve.api.entry import Entry

RERANK = (
    *(
        Entry("POST", path, "Documents by relevance", "edgeserve.api.rerank.request:rerank", "Rerank", jobs=("rerank",))
        for path in ("/v1/rerank", "/rerank", "/v1/reranking", "/reranking", "/v2/rerank")
    ),
    *(
        Entry(
            "POST", path, "Relevance of pairs of texts", "edgeserve.api.rerank.score:score", "Score", jobs=("rerank",)
        )
        for path in ("/v1/score", "/score")
    ),
)
