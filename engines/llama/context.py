"""One llama.cpp context: a KV cache that several sequences share, and the operations on a sequence."""

from __future__ import annotations

import ctypes
import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama import filler, sequences
from edgeserve.engines.llama.adapters import Active
from edgeserve.engines.llama.alarm import Alarm, attach
from edgeserve.engines.llama.deadline import Deadline
from edgeserve.engines.llama.model import MappedModel, metadata, vocabulary_size
from edgeserve.engines.llama.options import BATCH, LlamaOptions, batch_size, context_size
from edgeserve.engines.llama.runtime import error_details, llama
from edgeserve.engines.llama.state_memory import allocate
from edgeserve.engines.llama.threadpool import pool_for
from edgeserve.engines.llama.threads import Threads
from edgeserve.errors import EngineFailure
from edgeserve.system import cores, huge

log = logging.getLogger("edgeserve.llama")

MOST_THREADS = 8
"""Threads by default, at most. Memory bounds small models, so more threads make them no faster."""
RANKED_TOGETHER = 32
"""Documents in one call at most, each a sequence with its query."""
NO_ROOM = 1
"""Code of llama_decode when the KV cache has no free cells for the batch. The cache is unchanged then."""

FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
"""enum llama_flash_attn_type."""


@dataclass(frozen=True, slots=True)
class Item:
    """One token to decode; ``output``: its logits are needed."""

    token: int
    position: int
    sequence: int
    output: bool


def context_parameters(model: Any, options: LlamaOptions, threads: int | None) -> Any:
    """llama.cpp's parameters of a context. ``model``: llama.cpp's pointer."""
    runtime = llama()
    parameters = runtime.llama_context_default_params()
    parameters.n_ctx = context_size(options, int(runtime.llama_model_n_ctx_train(model)))
    parameters.n_seq_max = options.parallel + sequences.beside(model, options) + filler.has_one(model, options)
    parameters.n_outputs_max = sequences.outputs(options, parameters.n_seq_max, vocabulary_size(model))
    parameters.kv_unified = True
    parameters.n_threads = threads or cores.default_threads(MOST_THREADS)
    parameters.n_threads_batch = options.threads_batch or parameters.n_threads
    parameters.swa_full = options.window == "full"
    parameters.pooling_type = runtime.LLAMA_POOLING_TYPE_NONE
    if options.pooled:  # a text takes one call, since each of its tokens may attend to all others
        parameters.n_batch = parameters.n_ubatch = parameters.n_ctx
        parameters.n_seq_max, parameters.n_outputs_max = RANKED_TOGETHER if options.ranked else 1, parameters.n_ctx
        parameters.pooling_type, parameters.embeddings = pooling(model, options), True
    else:  # llama.cpp rounds a smaller context up, but takes no more tokens in a call than were asked for
        parameters.n_ctx = max(BATCH, parameters.n_ctx)
        parameters.n_batch = parameters.n_ubatch = batch_size(options, parameters.n_ctx)
    parameters.no_perf = True
    parameters.flash_attn_type = FLASH_ATTENTION[options.flash_attention]
    parameters.type_k = parameters.type_v = getattr(runtime, f"GGML_TYPE_{options.kv_type.upper()}")
    return parameters


def pooling(model: Any, options: LlamaOptions) -> int:
    """The pooling type of a whole text. Vectors: as the options say, else as the model's file says, else the mean."""
    runtime = llama()
    if options.ranked:
        return int(runtime.LLAMA_POOLING_TYPE_RANK)
    if options.pooling != "auto":
        return int(getattr(runtime, f"LLAMA_POOLING_TYPE_{options.pooling.upper()}"))
    named = metadata(model, f"{metadata(model, 'general.architecture')}.pooling_type")
    return int(named or 0) or int(runtime.LLAMA_POOLING_TYPE_MEAN)


class Context:
    """A context.

    - ``size``: tokens of all sequences together
    - ``batch``: tokens of one call at most
    - ``outputs``: tokens of one call that may have logits or embeddings
    - ``sequences``: sequences at a time, ``beside`` of them beyond the slots

    Not thread-safe. Raises EngineFailure when llama.cpp makes no context.
    """

    def __init__(self, model: MappedModel, options: LlamaOptions, threads: int | None) -> None:
        runtime = llama()
        self.model = model
        parameters = context_parameters(model.handle, options, threads)
        with huge.asked_for():  # llama.cpp fills the KV cache with zeros
            self.handle = runtime.llama_init_from_model(model.handle, parameters)
        if not self.handle:
            raise EngineFailure(f"{model.path}: no context of {parameters.n_ctx} tokens can be made{error_details()}")
        self.size = int(runtime.llama_n_ctx(self.handle))
        self.outputs, self.sequences = int(parameters.n_outputs_max), int(parameters.n_seq_max)
        self.beside = sequences.beside(model.handle, options)
        self._filler = options.parallel + self.beside if filler.has_one(model.handle, options) else None
        self._memory = runtime.llama_get_memory(self.handle)
        self.batch = int(parameters.n_batch)
        self._batch = runtime.llama_batch_init(self.batch, 0, 1)
        one = self._batch  # each look at a field of it would make another pointer
        self._fields = one.token, one.pos, one.n_seq_id, one.seq_id, one.logits
        self._active: Active = ()
        self._greedy: Any = None
        self._pool = pool_for(self.handle)
        self._threads = Threads(int(parameters.n_threads), int(parameters.n_threads_batch), self._use_threads)
        self._pool.resize(*self._threads.now)
        self._alarm = Alarm()
        # The state of recurrent layers cannot be set back to where a call began; an accelerator would not end the call.
        plain = self.removable and not options.pooled and not runtime.llama_supports_gpu_offload()
        self._deadline = Deadline(self._alarm, self._threads) if plain else None
        if plain:
            attach(self._alarm, self.handle)

    def _use_threads(self, single: int, batch: int) -> None:
        self._pool.resize(single, batch)
        llama().llama_set_n_threads(self.handle, single, batch)

    def pause_threads(self) -> None:
        """Let the threads sleep at once, since no call follows soon."""
        if self.handle:
            self._pool.pause()

    def free(self) -> None:
        """Free the context; later calls of ``free`` and ``clear`` do nothing."""
        handle, self.handle, self._memory = self.handle, None, None
        if handle:
            self._alarm.close()
            self._pool.free()
            llama().llama_batch_free(self._batch)
            llama().llama_sampler_free(self._greedy)
            llama().llama_free(handle)

    def use(self, active: Active) -> None:
        """Apply these adapters of the model, and no others, in all later calls. Raises EngineFailure."""
        if self.handle and active != self._active:
            # llama.cpp lays its graph out anew: some milliseconds, in the next call.
            if not self.model.adapters.use(self.handle, active):
                raise EngineFailure(f"{self.model.path}: llama.cpp cannot apply its adapters{error_details()}")
            self._active = active

    def decode(self, items: Iterable[Item]) -> bool:
        """Decode at most one batch. False when the cache has no room. After EngineFailure all sequences are lost."""
        count, (tokens, positions, counts, sequences, outputs) = 0, self._fields
        if not self.handle:
            raise EngineFailure(f"{self.model.path}: the context is freed")
        for at, item in enumerate(items):
            if at >= self.batch:  # llama.cpp would write beyond its batch, or abort the process
                raise EngineFailure(f"{self.model.path}: more than {self.batch} tokens in one call")
            tokens[at], positions[at], outputs[at] = item.token, item.position, item.output
            counts[at], sequences[at][0] = 1, item.sequence
            count = at + 1
        if not count:  # llama.cpp aborts the process
            raise EngineFailure(f"{self.model.path}: no token to decode")
        self._threads.look()
        code = NO_ROOM
        if self._filler is not None and count < self.batch and filler.wanted(count):
            filler.fill(self._fields, count, self._filler)
            code = self._decode(count + 1)
            self.clear(self._filler)
        code = self._decode(count) if code == NO_ROOM else code
        if code not in (0, NO_ROOM):
            raise EngineFailure(f"{self.model.path}: llama.cpp ended decoding with code {code}{error_details()}")
        return bool(code == 0)

    def _decode(self, count: int) -> int:
        self._batch.n_tokens = count
        return self._deadline.keep(count, self._call) if self._deadline else self._call()

    def _call(self) -> int:
        return int(llama().llama_decode(self.handle, self._batch))

    def wait(self) -> None:
        """Wait until the latest call is computed. Accelerators continue after ``decode`` has returned."""
        llama().llama_synchronize(self.handle)

    @property
    def removable(self) -> bool:
        """Whether ``cut`` can remove the tokens of the latest call: not from the state of recurrent layers."""
        runtime, handle = llama(), self.model.handle
        return not (runtime.llama_model_is_recurrent(handle) or runtime.llama_model_is_hybrid(handle))

    def logits(self, output: int) -> Any:
        """A view of the logits at index ``output`` of the last call: float32, one for each token of the vocabulary."""
        import numpy

        runtime = llama()
        pointer = runtime.llama_get_logits_ith(self.handle, output)
        return numpy.ctypeslib.as_array(pointer, (int(runtime.llama_vocab_n_tokens(self.model.vocabulary)),))

    def spoilt(self, output: int) -> bool:
        """Whether the logits at index ``output`` of the last call are NaN. Where the first one is, so are all."""
        return math.isnan(llama().llama_get_logits_ith(self.handle, output)[0])

    def likeliest(self, output: int) -> int:
        """The likeliest token at index ``output`` of the last call."""
        runtime = llama()
        self._greedy = self._greedy or runtime.llama_sampler_init_greedy()
        return int(runtime.llama_sampler_sample(self._greedy, self.handle, output))

    def embed(self, tokens: Sequence[int], position: int, sequence: int) -> Any | None:
        """Embeddings by the last layer of at most ``outputs`` tokens: float32, a row for each token.

        None when the cache has no room. The logits of the call before are lost.
        """
        import numpy

        runtime = llama()
        width = int(runtime.llama_model_n_embd_out(self.model.handle))
        runtime.llama_set_embeddings(self.handle, True)
        try:
            if not self.decode(Item(token, position + at, sequence, True) for at, token in enumerate(tokens)):
                return None
            rows = [runtime.llama_get_embeddings_ith(self.handle, at) for at in range(len(tokens))]
            return numpy.stack([numpy.ctypeslib.as_array(row, (width,)) for row in rows])
        finally:
            runtime.llama_set_embeddings(self.handle, False)

    def pool(self, texts: Sequence[Sequence[int]], width: int) -> list[Any]:
        """The row of each text, float32 [width], all in one call. Needs a ``pooled`` context.

        At most ``sequences`` texts and ``size`` tokens. Raises EngineFailure.
        """
        import numpy

        numbers, rows = range(len(texts)), enumerate(texts)
        try:
            if not self.decode(Item(token, at, number, True) for number, text in rows for at, token in enumerate(text)):
                count = sum(map(len, texts))
                raise EngineFailure(f"{self.model.path}: {count} tokens do not fit in a context of {self.size}")
            found = [llama().llama_get_embeddings_seq(self.handle, number) for number in numbers]
            if not all(found):
                raise EngineFailure(f"{self.model.path}: llama.cpp made no row of a text{error_details()}")
            return [numpy.ctypeslib.as_array(one, (width,)).copy() for one in found]
        finally:
            for number in numbers:
                self.clear(number)
            self.pause_threads()

    def clear(self, sequence: int) -> None:
        """Remove all tokens of a sequence."""
        if self._memory:  # an encoder has no KV cache
            llama().llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def wipe(self) -> None:
        """Remove the tokens of all sequences, and write zeros into their cells."""
        llama().llama_memory_clear(self._memory, True)

    def cut(self, sequence: int, kept: int) -> bool:
        """Remove all tokens after the first ``kept`` positions. False when the model cannot."""
        runtime = llama()
        # With a sliding window the cache may lack tokens that the prefix needs; llama.cpp reports success all the same.
        whole = runtime.llama_memory_seq_pos_min(self._memory, sequence) <= max(0, kept - self.model.window)
        return bool(whole and runtime.llama_memory_seq_rm(self._memory, sequence, kept, -1))

    def copy(self, source: int, target: int, length: int) -> None:
        """Add the first ``length`` positions of ``source`` to ``target``. Both share the cells; no memory is copied."""
        llama().llama_memory_seq_cp(self._memory, source, target, 0, length)

    def state_size(self, sequence: int) -> int:
        """Bytes of the state of a sequence."""
        return int(llama().llama_state_seq_get_size(self.handle, sequence))

    def save(self, sequence: int, memory: Any | None = None) -> Any | None:
        """The state of a sequence as bytes, for ``restore`` in a context of the same model; in ``memory`` if it fits.

        None when llama.cpp refuses, or the system has no memory for it.
        """
        size = self.state_size(sequence)
        try:
            data = memory if memory is not None and len(memory) == size else allocate(size)
        except (OSError, MemoryError) as error:
            log.warning("a conversation's state of %d MB cannot be kept: %s", size >> 20, error)
            return None
        return data if llama().llama_state_seq_get_data(self.handle, data, size, sequence) == size else None

    def restore(self, sequence: int, data: Any) -> bool:
        """Fill a sequence from a state in writable bytes.

        False when llama.cpp refuses, such as for lack of room. The sequence is empty then.
        """
        self.clear(sequence)
        array = (ctypes.c_uint8 * len(data)).from_buffer(data)
        if llama().llama_state_seq_set_data(self.handle, array, len(data), sequence):
            return True
        self.clear(sequence)
        return False
