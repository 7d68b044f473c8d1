"""Mapped models, shared by all engines that name the same file.

llama.cpp maps with MAP_POPULATE, which makes every page of the weights resident. ``acquire`` drops the pages again.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.device import Device
from edgeserve.engines import model_files
from edgeserve.engines.llama import devices
from edgeserve.engines.llama.adapters import Adapters
from edgeserve.engines.llama.options import LlamaOptions
from edgeserve.engines.llama.runtime import error_details, llama
from edgeserve.engines.llama.tokenizer import NativeVocabulary, Tokenizer, TooLong
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.system import heap, pages

PIECES = 4096
"""Tokens whose bytes are cached, at most 1 MB. Reading them from llama.cpp costs 30 µs a token."""


@dataclass(eq=False, slots=True)
class MappedModel:
    """One ``llama_model`` and the number of its users. ``handle`` and ``vocabulary`` are llama.cpp's pointers.

    ``repacked``: the weights that llama.cpp reorders are a private copy. Only the others are read from the file.
    ``adapters``: those that contexts of this model may apply.
    """

    path: Path
    handle: Any
    vocabulary: Any
    repacked: bool = False
    adapters: Adapters = field(default_factory=lambda: Adapters(()))
    users: int = 0
    hot: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    tokenizer: Tokenizer = field(init=False)
    _pieces: Callable[[int, bool], bytes] = field(init=False)
    _endings: tuple[int, ...] | None = None
    _populated: int | None = None
    """Bytes that the latest way up made resident, until somebody asks."""

    def __post_init__(self) -> None:
        self.tokenizer = Tokenizer(NativeVocabulary(self.vocabulary, str(self.path)))
        self._pieces = functools.lru_cache(PIECES)(self._read_piece)

    def heat(self) -> Callable[[], None]:
        """Count one more hot user, and begin to make the weights resident. Returns a function that waits for them."""
        with self.lock:
            self.hot += 1
        if self.repacked:
            return lambda: None
        finish = pages.begin_populating(self.path)

        def wait() -> None:
            self._populated = finish() or None  # 0: a kernel that can only be advised; the walk tells then

        return wait

    def cool(self) -> None:
        """Count one hot user less; the last one drops the pages of the weights."""
        with self.lock:
            self.hot -= 1
            if not self.hot:
                self._populated = None
                pages.drop_mapped(self.path)

    def resident(self) -> int:
        """Resident bytes of the weights. Known after a way up; later the kernel walks all pages, 40 ms a GB."""
        with self.lock:
            known, self._populated = self._populated, None
        return pages.resident_mapped(self.path) if known is None else known

    @property
    def window(self) -> int:
        """Tokens of the sliding window; 0 without one."""
        return int(llama().llama_model_n_swa(self.handle))

    @property
    def cuttable(self) -> bool:
        """Whether tokens can be removed from a saved state: not with recurrent layers or a sliding window."""
        # With a sliding window llama.cpp saves the tokens of the window only, even if the cache keeps all.
        runtime = llama()
        recurrent = runtime.llama_model_is_recurrent(self.handle) or runtime.llama_model_is_hybrid(self.handle)
        return not (self.window or recurrent)

    def tokenize(self, text: str, *, add_special: bool, most: int | None = None) -> list[int]:
        """Tokens of a text. Any thread that holds the model. Raises TooLong for more than ``most`` tokens.

        ``add_special``: add the model's own first and last tokens, such as BOS. A chat template writes them itself.
        """
        return self.tokenizer.tokenize(text, add_special=add_special, most=most)

    def read(self, prompt: str | tuple[int, ...], *, param: str, most: int | None = None) -> list[int]:
        """Tokens of a raw prompt: a text to tokenise, or tokens to check.

        Raises TooLong for more than ``most`` tokens, InvalidRequest naming ``param`` for an unknown token.
        """
        if isinstance(prompt, str):
            return self.tokenize(prompt, add_special=True, most=most)
        if most is not None and len(prompt) > most:
            raise TooLong(len(prompt), exact=True)
        size = int(llama().llama_vocab_n_tokens(self.vocabulary))
        for token in prompt:
            if not 0 <= token < size:
                raise InvalidRequest(f"token {token} is not in the vocabulary of {size} tokens", param=param)
        return list(prompt)

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of one token, perhaps a part of a character. Control tokens have bytes only if ``special``."""
        return self._pieces(token, special)

    def _read_piece(self, token: int, special: bool) -> bytes:
        buffer = ctypes.create_string_buffer(256)
        length = llama().llama_token_to_piece(self.vocabulary, token, buffer, len(buffer), 0, special)
        return buffer.raw[:length] if length > 0 else b""

    def ends(self, token: int) -> bool:
        """Whether this token ends an answer."""
        return bool(llama().llama_vocab_is_eog(self.vocabulary, token))

    def endings(self) -> tuple[int, ...]:
        """All tokens that end an answer. The first call takes some tens of milliseconds. Any thread."""
        if self._endings is None:
            self._endings = tuple(filter(self.ends, range(int(llama().llama_vocab_n_tokens(self.vocabulary)))))
        return self._endings

    def chat_template(self) -> str | None:
        """The Jinja source in the model's file; None without one."""
        source = llama().llama_model_chat_template(self.handle, None)
        return source.decode() if source else None

    def bos_eos(self) -> tuple[str, str]:
        """Texts of the BOS and EOS tokens; empty for a token that the model lacks."""
        runtime = llama()
        tokens = (runtime.llama_vocab_bos(self.vocabulary), runtime.llama_vocab_eos(self.vocabulary))
        begin, end = (
            (runtime.llama_vocab_get_text(self.vocabulary, one) or b"").decode() if one >= 0 else "" for one in tokens
        )
        return begin, end


_models: dict[tuple[object, ...], MappedModel] = {}
_lock = threading.Lock()
"""Guards ``_models`` and the counts of users. Every engine's loop waits for it, so it is held for a moment only."""
_loading = threading.Lock()
"""Held for the seconds in which a model is mapped or freed. Always acquired before ``_lock``."""


def acquire(
    path: Path, device: Device, options: LlamaOptions, *, repack: bool = False, adapters: Sequence[Path] = ()
) -> MappedModel:
    """Map the file, or share its mapping. A new mapping has no resident page. Raises EngineFailure.

    Engines with other ``adapters`` share no mapping: llama.cpp adds adapters to a model, beside nobody who uses it.
    """
    model_files.require([path])
    placed = () if device == "cpu" else (options.gpu_layers, options.split_mode, options.main_gpu, options.tensor_split)
    key = (path.resolve(), placed, repack, tuple(adapters))
    with _loading:
        model = _models.get(key)
        if model is None or not hold(model):
            model = _load(path, device, options, repack)
            model.users, model.adapters = 1, Adapters(adapters)
            with _lock:
                _models[key] = model
    return model


def hold(model: MappedModel) -> bool:
    """Count one more user of a model, for ``release``. False when another thread has freed the model."""
    with _lock:
        model.users += model.users > 0
        return model.users > 0


def release(model: MappedModel) -> None:
    """Count one user less; the last one frees the model."""
    with _lock:
        model.users -= 1
        if model.users:
            return
        for key in [key for key, one in _models.items() if one is model]:
            del _models[key]
    with _loading:  # never while acquire drops pages by address: freed addresses may be others'
        llama().llama_model_free(model.handle)
        heap.trim()


def model_parameters(device: Device, options: LlamaOptions) -> Any:
    """llama.cpp's parameters of a model, which place its layers. Raises EngineFailure."""
    runtime = llama()
    parameters = runtime.llama_model_default_params()
    parameters.n_gpu_layers = 0
    if device == "cpu" or not runtime.llama_supports_gpu_offload():
        return parameters
    parameters.n_gpu_layers, parameters.main_gpu = options.gpu_layers, options.main_gpu
    parameters.split_mode = getattr(runtime, f"LLAMA_SPLIT_MODE_{options.split_mode.upper()}")
    if options.tensor_split:
        found = devices.accelerators()
        if len(options.tensor_split) > found:
            shares = ", ".join(format(share, "g") for share in options.tensor_split)
            raise EngineFailure(f"tensor_split = [{shares}]: llama.cpp sees only {found} accelerators here")
        parameters.tensor_split = (ctypes.c_float * runtime.llama_max_devices())(*options.tensor_split)
    return parameters


def vocabulary_size(model: Any) -> int:
    """Tokens of the vocabulary of llama.cpp's model."""
    runtime = llama()
    return int(runtime.llama_vocab_n_tokens(runtime.llama_model_get_vocab(model)))


def metadata(model: Any, key: str) -> str:
    """The value at a key of the model's file, as text of at most 31 bytes; empty where the file has no such key."""
    buffer = ctypes.create_string_buffer(32)
    found = llama().llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
    return buffer.value.decode(errors="replace") if found >= 0 else ""


def _load(path: Path, device: Device, options: LlamaOptions, repack: bool) -> MappedModel:
    runtime = llama()
    if device in ("cuda", "metal") and not runtime.llama_supports_gpu_offload():
        raise EngineFailure(
            f'device {device!r}: this build of llama-cpp-python computes on the processor only; use device = "cpu", or '
            f"rebuild it with CMAKE_ARGS=-DGGML_{device.upper()}=on"
        )
    parameters = model_parameters(device, options)
    parameters.load_mode = runtime.LLAMA_LOAD_MODE_MMAP
    parameters.use_extra_bufts = repack
    handle = runtime.llama_model_load_from_file(str(path).encode(), parameters)
    if not handle:
        raise EngineFailure(f"{path}: llama.cpp cannot load it{error_details()}")
    pages.drop_mapped(path)
    heap.trim()
    return MappedModel(path, handle, runtime.llama_model_get_vocab(handle), repacked=repack)
