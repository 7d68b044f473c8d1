"""The jobs of a model: one entry each, with all that the server must know of a job.

Tables by job in other rooms are derived from ``INFO``. A new job is a name in ``Job``, an entry here, and its engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.units import GB

Job = Literal["llm", "vision", "asr", "tts", "embedding", "rerank", "speaker"]

MLX_WHISPER = "edgeserve.engines.asr.mlx:MlxSpeechToText"
ENCODERS: Mapping[Job, str] = MappingProxyType(
    {
        "embedding": "edgeserve.engines.encoder.embedding:OnnxEmbedding",
        "rerank": "edgeserve.engines.encoder.rerank:OnnxRerank",
    }
)
"""Engines for encoders on ONNX Runtime: of models that have a file "tokenizer"."""
ONNX_RUNTIME = "onnxruntime"


@dataclass(frozen=True, slots=True)
class JobInfo:
    """One job.

    Fields:
        name          name of its table in models.toml
        words         description of the job for people
        kind          name of its requests in the setting ``when``
        request       class of its requests in edgeserve.messages
        method        method of the engine that answers such a request
        engine        import string of its engine
        options       import string of the dataclass with the engine's own keys of models.toml
        package       Python package of the engine's runtime
        variable      environment variable, without prefix, that names the model; the flag has the same name
        example       model of the catalogue, for advice
        files         sets of file roles; a stored model has all files of at least one set
        starter       the server without a models.toml serves ``example``
        mapped        the engine is opened at startup and never closed for being idle
        answers       the engine writes answers of tokens
        pictures      the engine reads pictures, with a projector
        rests         its answers end for now within seconds when another model waits for the memory
        reads_whole   it reads each text at once: in a smaller context its answers are others
        other_engines import strings of further engines that a stored model may name
        other_packages  packages of their runtimes, by import string, where they differ
        former        import strings that version 0.1 stored, with their names of today
        companions    models of the catalogue that every model of this job needs, by the role of their file
        also_runs     jobs of stored models that may be configured for this job, too
        stand_ins     jobs whose engines answer its requests where this job has no model
        optional      a server without a model for the job does not list the job
        switch_bytes  free memory that a switch to this engine waits for at most; None: all that the engine needs
        split         import string of the engine whose later layers lie on other machines; empty without one
        expected      import string of the function that expects a model's memory from the catalogue's figures
    """

    name: Job
    words: str
    kind: str
    request: str
    method: str
    engine: str
    options: str
    package: str
    variable: str
    example: str
    files: tuple[frozenset[str], ...] = (frozenset({"model"}),)
    starter: bool = False
    mapped: bool = False
    answers: bool = False
    pictures: bool = False
    rests: bool = False
    reads_whole: bool = False
    other_engines: tuple[str, ...] = ()
    other_packages: Mapping[str, str] = field(default_factory=dict)
    former: Mapping[str, str] = field(default_factory=dict)
    companions: Mapping[str, str] = field(default_factory=dict)
    also_runs: tuple[Job, ...] = ()
    stand_ins: tuple[Job, ...] = ()
    optional: bool = False
    switch_bytes: int | None = None
    expected: str = ""
    split: str = ""

    def runtime(self, engine: str) -> str:
        """The package of an engine's runtime."""
        return self.other_packages.get(engine, self.package)

    @property
    def how_to_add(self) -> str:
        """The lines of models.toml that configure the job."""
        return f'[{self.name}]\nmodel = "{self.example}"'

    @property
    def flag(self) -> str:
        """The flag of ``edgeserve serve`` that names the model."""
        return f"--{self.variable.lower().replace('_', '-')}"


_LLM = JobInfo(
    "llm",
    words="chat",
    kind="chat",
    request="ChatRequest",
    method="chat",
    engine="edgeserve.engines.llama.chat:LlamaChat",
    split="edgeserve.engines.llama.split:LlamaSplit",
    options="edgeserve.engines.llama.options:LlamaOptions",
    expected="edgeserve.engines.llama.expected:footprint",
    package="llama-cpp-python",
    variable="LLM",
    example="smollm2-135m-instruct",
    starter=True,
    mapped=True,
    answers=True,
    former={"engines.llama:LlamaChat": "edgeserve.engines.llama.chat:LlamaChat"},
)
_VISION = JobInfo(
    "vision",
    words="vision",
    kind="vision",
    request="ChatRequest",
    method="chat",
    engine="edgeserve.engines.llama.vision:LlamaVision",
    options="edgeserve.engines.llama.options:LlamaOptions",
    expected="edgeserve.engines.llama.expected:footprint",
    package="llama-cpp-python",
    variable="VLM_MODEL",
    example="smolvlm-256m",
    mapped=True,
    answers=True,
    pictures=True,
    former={"engines.llama_vision:LlamaVision": "edgeserve.engines.llama.vision:LlamaVision"},
    also_runs=("llm",),
    switch_bytes=20 * GB,
)
_ASR = JobInfo(
    "asr",
    words="transcription",
    kind="transcribe",
    request="TranscribeRequest",
    method="transcribe",
    engine="edgeserve.engines.asr.onnx:OnnxSpeechToText",
    options="edgeserve.engines.asr.options:AsrOptions",
    expected="edgeserve.engines.asr.expected:footprint",
    package="onnxruntime",
    variable="ASR_MODEL",
    example="whisper-tiny.en",
    files=(frozenset({"encoder", "decoder"}), frozenset({"weights", "config"})),
    rests=True,
    starter=True,
    other_engines=(MLX_WHISPER,),
    former={
        "engines.asr_onnx:OnnxSpeechToText": "edgeserve.engines.asr.onnx:OnnxSpeechToText",
        "engines.whisper_mlx:MlxSpeechToText": MLX_WHISPER,
    },
    companions={"vad": "silero-vad"},
    switch_bytes=10 * GB,
)
_TTS = JobInfo(
    "tts",
    words="speech",
    kind="speak",
    request="SpeakRequest",
    method="speak",
    engine="edgeserve.engines.tts.onnx:OnnxTextToSpeech",
    options="edgeserve.engines.tts.options:TtsOptions",
    expected="edgeserve.engines.tts.expected:footprint",
    package="onnxruntime",
    variable="TTS_MODEL",
    example="hibari",
    rests=True,
    starter=True,
    former={"engines.tts_onnx:OnnxTextToSpeech": "edgeserve.engines.tts.onnx:OnnxTextToSpeech"},
    switch_bytes=10 * GB,
)
_EMBEDDING = JobInfo(
    "embedding",
    words="embeddings",
    kind="embed",
    request="EmbedRequest",
    method="embed",
    engine="edgeserve.engines.llama.embedding:LlamaEmbedding",
    options="edgeserve.engines.llama.options:LlamaOptions",
    expected="edgeserve.engines.llama.expected:footprint",
    package="llama-cpp-python",
    variable="EMBEDDING_MODEL",
    example="nomic-embed-text-v1.5",
    rests=True,
    reads_whole=True,
    other_engines=(ENCODERS["embedding"],),
    other_packages={ENCODERS["embedding"]: ONNX_RUNTIME},
    former={"engines.llama_embedding:LlamaEmbedding": "edgeserve.engines.llama.embedding:LlamaEmbedding"},
    also_runs=("llm",),
    stand_ins=("llm", "vision"),
    optional=True,
)

_RERANK = JobInfo(
    "rerank",
    words="reranking",
    kind="rerank",
    request="RerankRequest",
    method="rerank",
    engine="edgeserve.engines.llama.rerank:LlamaRerank",
    options="edgeserve.engines.llama.options:LlamaOptions",
    expected="edgeserve.engines.llama.expected:footprint",
    package="llama-cpp-python",
    variable="RERANK_MODEL",
    example="ms-marco-minilm-l6-v2",
    rests=True,
    reads_whole=True,
    other_engines=(ENCODERS["rerank"],),
    other_packages={ENCODERS["rerank"]: ONNX_RUNTIME},
    also_runs=("llm",),
    optional=True,
)

_SPEAKER = JobInfo(
    "speaker",
    words="telling speakers apart",
    kind="diarize",
    request="DiarizeRequest",
    method="diarize",
    engine="edgeserve.engines.asr.speakers.onnx:OnnxDiarizer",
    options="edgeserve.engines.asr.speakers.options:SpeakerOptions",
    expected="edgeserve.engines.asr.speakers.expected:footprint",
    package="onnxruntime",
    variable="SPEAKER_MODEL",
    example="resemblyzer",
    companions={"vad": "silero-vad"},
    rests=True,
    optional=True,
    switch_bytes=10 * GB,
)

_ALL = (_LLM, _VISION, _ASR, _TTS, _EMBEDDING, _RERANK, _SPEAKER)
INFO: Mapping[Job, JobInfo] = MappingProxyType({one.name: one for one in _ALL})

ALL_JOBS: tuple[Job, ...] = tuple(INFO)
JOBS: tuple[Job, ...] = tuple(job for job, one in INFO.items() if not one.optional)
"""Jobs that every server lists, configured or not."""
CHAT: tuple[Job, ...] = tuple(job for job, one in INFO.items() if one.answers)
"""Jobs whose engines continue conversations, the preferred one first."""
VECTORS: tuple[Job, ...] = ("embedding", *INFO["embedding"].stand_ins)
"""Jobs whose engines make vectors, the best first."""
PICTURES: tuple[Job, ...] = tuple(job for job, one in INFO.items() if one.pictures)
NODES = "nodes"
"""The option of a model whose later layers lie on other machines: their workers."""
MODELS = "models"
"""The table of models.toml whose tables, [models.NAME], each serve one more model."""


def table_of(model: str) -> str:
    """The table of models.toml that configures the model of this id."""
    return model if model in INFO else f"{MODELS}.{model}"


STARTER: Mapping[Job, str] = MappingProxyType({job: one.example for job, one in INFO.items() if one.starter})
"""Models that the server without a models.toml serves."""
