"""The BERT of ``support.tiny_bert`` as a graph for ONNX Runtime, with its tokenizer.json and config.json."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from support.tiny_bert import (
    CONTEXT,
    EPSILON,
    FEED_FORWARD,
    HEADS,
    LAYERS,
    PIECES,
    SPECIAL,
    WIDTH,
    WORDS,
    weights,
)

TOKENS = (*SPECIAL, *WORDS, *PIECES, *(f"##{one}" for one in PIECES))


def write_onnx(
    folder: Path,
    *,
    head: Sequence[str] = (),
    pooled: bool = False,
    types: bool = True,
    pooling: str = "",
    seed: int = 1,
) -> dict[str, Path]:
    """The files by role. ``head``: tensors of a ranking head, else the graph gives the rows.

    - ``pooled``: the graph gives the mean of the rows, too
    - ``types``: the graph takes segments
    - ``pooling``: key that the file ``pooling`` sets
    """
    import onnx

    folder.mkdir(parents=True, exist_ok=True)
    files = {"model": folder / "model.onnx", "tokenizer": folder / "tokenizer.json", "config": folder / "config.json"}
    onnx.save(_model(weights(seed, head), head, pooled, types), str(files["model"]))
    files["tokenizer"].write_text(tokenizer_json(), encoding="utf-8")
    shape = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": FEED_FORWARD}
    architecture = "BertForSequenceClassification" if head else "BertModel"
    config = shape | {"max_position_embeddings": CONTEXT, "model_type": "bert", "architectures": [architecture]}
    files["config"].write_text(json.dumps(config), encoding="utf-8")
    if pooling:
        files["pooling"] = folder / "pooling.json"
        files["pooling"].write_text(json.dumps({"word_embedding_dimension": WIDTH, pooling: True}), encoding="utf-8")
    return files


def tokenizer_json() -> str:
    """WordPiece as BERT's, cut at 16 tokens and filled, as some published files are."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = {name: number for number, name in enumerate(TOKENS)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.add_special_tokens(list(SPECIAL))
    made.enable_truncation(16)
    made.enable_padding(length=16)
    return str(made.to_str())


class _Graph:
    """Nodes under construction."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self.nodes: list[Any] = []
        self.constants = dict(known)

    def add(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """The output of a new node; an array as input becomes a constant."""
        import onnx

        names = []
        for one in inputs:
            if not isinstance(one, str):
                self.constants[f"constant_{len(self.constants)}"] = one
                one = f"constant_{len(self.constants) - 1}"
            names.append(one)
        output = f"value_{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(kind, names, [output], **attributes))
        return output

    def linear(self, value: str, name: str) -> str:
        found = self.add("MatMul", value, np.ascontiguousarray(self.constants[f"{name}.weight"].T))
        return self.add("Add", found, f"{name}.bias") if f"{name}.bias" in self.constants else found

    def normed(self, value: str, name: str) -> str:
        return self.add("LayerNormalization", value, f"{name}.weight", f"{name}.bias", axis=-1, epsilon=EPSILON)

    def heads(self, value: str) -> str:
        split = self.add("Reshape", value, np.array([0, 0, HEADS, WIDTH // HEADS]))
        return self.add("Transpose", split, perm=[0, 2, 1, 3])


def _model(known: Mapping[str, Any], head: Sequence[str], pooled: bool, types: bool) -> Any:
    from onnx import TensorProto, helper, numpy_helper

    graph = _Graph(known)
    rows = _rows(graph, types)
    outputs = {"last_hidden_state": (rows, ["batch", "tokens", WIDTH])}
    if head:
        first = graph.add("Gather", rows, np.array(0), axis=1)
        first = graph.add("Tanh", graph.linear(first, "cls")) if "cls.weight" in known else first
        outputs = {"logits": (graph.linear(first, "cls.output"), ["batch", 1])}
    elif pooled:
        outputs["sentence_embedding"] = (graph.add("ReduceMean", rows, np.array([1]), keepdims=0), ["batch", WIDTH])
    for name, (value, _) in outputs.items():
        graph.nodes.append(helper.make_node("Identity", [value], [name]))
    inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    made = helper.make_graph(
        graph.nodes,
        "bert",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, (_, shape) in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in graph.constants.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _rows(graph: _Graph, types: bool) -> str:
    words = graph.add("Gather", "token_embd.weight", "input_ids")
    segments = "token_type_ids" if types else graph.add("Sub", "attention_mask", "attention_mask")
    found = graph.add("Add", words, graph.add("Gather", "token_types.weight", segments))
    count = graph.add("Gather", graph.add("Shape", "input_ids"), np.array([1]))
    places = graph.add("Slice", "position_embd.weight", np.array([0]), count, np.array([0]))
    found = graph.normed(graph.add("Add", found, places), "token_embd_norm")
    mask = graph.add("Cast", graph.add("Unsqueeze", "attention_mask", np.array([1, 2])), to=1)
    hidden = graph.add("Mul", graph.add("Sub", np.array(1, np.float32), mask), np.array(-1e9, np.float32))
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        query, keys, values = (graph.heads(graph.linear(found, f"{block}attn_{part}")) for part in "qkv")
        scores = graph.add("MatMul", query, graph.add("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = graph.add("Mul", scores, np.array(1 / math.sqrt(WIDTH // HEADS), np.float32))
        shares = graph.add("Softmax", graph.add("Add", scores, hidden), axis=-1)
        attended = graph.add("Transpose", graph.add("MatMul", shares, values), perm=[0, 2, 1, 3])
        attended = graph.add("Reshape", attended, np.array([0, 0, WIDTH]))
        found = graph.add("Add", found, graph.linear(attended, f"{block}attn_output"))
        found = graph.normed(found, f"{block}attn_output_norm")
        wide = graph.add("Gelu", graph.linear(found, f"{block}ffn_up"), approximate="tanh")
        found = graph.add("Add", found, graph.linear(wide, f"{block}ffn_down"))
        found = graph.normed(found, f"{block}layer_output_norm")
    return found
