"""Chat with a model whose later layers lie on other machines, in the memory of their ``edgeserve rpc-worker``.

A warm engine has the vocabulary alone. The weights go to the other machines on the way up to hot. Their memory comes
free when the engine steps down.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from edgeserve.engine import Footprint, ModelSpec
from edgeserve.engine_abilities import Access
from edgeserve.engines import model_files
from edgeserve.engines.llama import rpc
from edgeserve.engines.llama.cache import PrefixCache
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.estimate import KV_BYTES, SMALLEST_CONTEXT, VOCABULARY_BYTES, outputs_of
from edgeserve.engines.llama.gguf import read_contents
from edgeserve.engines.llama.model import MappedModel
from edgeserve.engines.llama.options import BATCH, DEFAULT_CONTEXT, batch_size, context_size
from edgeserve.engines.llama.runtime import error_details, llama
from edgeserve.errors import ConfigError, EngineFailure
from edgeserve.splits.node import read_node
from edgeserve.splits.plan import Sizes
from edgeserve.system import heap, pages
from edgeserve.units import MB

BESIDE = 16 * MB
"""Bytes of each machine beside weights, cache and the tensors of a graph: the graph itself, and messages under way."""


class LlamaSplit(LlamaChat):
    """Files and options as ``LlamaChat``. The processor of each machine computes its layers.

    ``place`` comes before each way up to hot. Raises ConfigError where llama.cpp is installed without RPC.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        # No saved conversations: they would have to be read from the other machines.
        self.options = self._configured = dataclasses.replace(
            self._configured, prefix_cache_mb=0, prefix_cache_disk_mb=0, reordered=False
        )
        if spec.adapters:
            raise ConfigError(f"[{spec.id}] nodes: a model on several machines takes no adapters", param="nodes")
        if "draft" in spec.files:
            raise ConfigError(f"[{spec.id}] nodes: a model on several machines takes no draft", param="nodes")
        if rpc.plugin() is None:
            raise ConfigError(f"[{spec.id}] nodes: {rpc.MISSING}", param="nodes")
        self._endpoints: tuple[str, ...] = ()
        self._layers: tuple[int, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(str(read_node(one)) for one in self._configured.nodes)

    def access(self) -> Access:
        return Access(ports=tuple({read_node(one).port for one in self._configured.nodes}))

    def contexts(self) -> tuple[int, ...]:
        """The configured size alone; of an automatic one its halves, too, down to the smallest useful one."""
        size = context_size(self._configured, self._read_shape().trained_context)
        found = [size]
        while not self._configured.context and found[-1] // 2 >= DEFAULT_CONTEXT:
            found.append(found[-1] // 2)
        return tuple(found)

    def sizes(self, context: int) -> Sizes:
        path, shape = self.spec.files["model"], self._read_shape()
        found = read_contents(path).bytes_of()
        layers = [0] * shape.layers
        beside = {"token_embd.weight": 0}
        for name, size in found.items():
            first, _, rest = name.partition(".")
            number = rest.partition(".")[0]
            if first == "blk" and number.isdigit() and int(number) < shape.layers:
                layers[int(number)] += size
            else:
                beside[name] = size
        embeddings = beside.pop("token_embd.weight")
        # A model without an output layer of its own computes with its embeddings, which the last machine needs, too.
        last = sum(beside.values()) + (0 if "output.weight" in beside else embeddings)
        batch = batch_size(self.options, max(context, BATCH))
        outputs = outputs_of(self.options, shape.vocabulary)
        return Sizes(
            layers=tuple(layers),
            cache=int(max(context, BATCH) * shape.key_value_width * KV_BYTES[self._configured.kv_type]),
            first=embeddings + shape.vocabulary * VOCABULARY_BYTES,
            last=last + 4 * outputs * shape.vocabulary,
            overhead=4 * batch * (6 * shape.width + 2 * shape.feed_forward) + 2 * batch * context + BESIDE,
        )

    def place(self, endpoints: Sequence[str], layers: Sequence[int], context: int) -> None:
        if len(layers) != len(endpoints) + 1 or context < SMALLEST_CONTEXT // 8:
            raise EngineFailure(f"{len(layers)} parts for {len(endpoints)} machines, with a context of {context}")
        self._endpoints, self._layers = tuple(endpoints), tuple(layers)
        self.options = dataclasses.replace(self.options, context=context)

    def estimate(self) -> Footprint:
        """The vocabulary alone: the host adds the part of this machine, once it knows the other ones."""
        return Footprint(private=self._read_shape().vocabulary * VOCABULARY_BYTES)

    def _make_cache(self, model: MappedModel) -> PrefixCache:
        return PrefixCache(0, whole=not model.cuttable)

    def _acquire(self, *, repack: bool) -> MappedModel:
        path = self.spec.files["model"]
        model_files.require([path])
        return _load(path) if self._model is None else _load(path, self._endpoints, self._layers)


def _load(path: Path, endpoints: Sequence[str] = (), layers: Sequence[int] = ()) -> MappedModel:
    """The model with its weights on the machines; without endpoints its vocabulary alone. Raises EngineFailure.

    llama.cpp ends the process when a machine cannot be reached.
    """
    runtime = llama()
    parameters = runtime.llama_model_default_params()
    parameters.load_mode, parameters.use_extra_bufts = runtime.LLAMA_LOAD_MODE_MMAP, False
    if endpoints:
        found = rpc.devices(endpoints)
        listed = (ctypes.c_void_p * (len(found) + 1))(*found, None)
        parameters.devices = ctypes.cast(listed, ctypes.c_void_p)
        # llama.cpp counts the output as a layer behind the others: it goes to the last machine.
        shares = [*layers[1:-1], layers[-1] + 1]
        parameters.n_gpu_layers = sum(shares)
        parameters.split_mode = runtime.LLAMA_SPLIT_MODE_LAYER
        parameters.tensor_split = (ctypes.c_float * runtime.llama_max_devices())(*shares)
    else:
        parameters.vocab_only, parameters.n_gpu_layers = True, 0
    handle = runtime.llama_model_load_from_file(str(path).encode(), parameters)
    if not handle:
        raise EngineFailure(f"{path}: llama.cpp cannot load it{error_details()}")
    pages.drop_mapped(path)
    heap.trim()
    # The mapping holds the layers of this machine alone, and their pages come with their first use.
    return MappedModel(path, handle, runtime.llama_model_get_vocab(handle), repacked=True, users=1)
