"""Facts in the config.json of an encoder."""

from __future__ import annotations

import json
from pathlib import Path

from edgeserve.engine import ModelSpec
from edgeserve.engines.encoder.embedding import facts

BERT = {"model_type": "bert", "hidden_size": 384, "max_position_embeddings": 512}


def test_the_figures_of_a_model(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for given, family in ((BERT, "bert"), (BERT | {"model_type": 7}, "")):
        path.write_text(json.dumps(given))
        found = facts(
            ModelSpec("embedding", "small", "edgeserve.engines.encoder.embedding:OnnxEmbedding", {"config": path})
        )
        assert (found.form, found.family, found.context, found.width) == ("onnx", family, 512, 384)
