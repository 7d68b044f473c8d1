"""Whole files of every kind, small and made here: what the fuzzer breaks."""

from __future__ import annotations

import functools
import io
import math
import random
import struct
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SECONDS, RATE = 0.4, 16_000
CONTAINERS = {
    "flac": ("flac", "flac"),
    "mp3": ("mp3", "libmp3lame"),
    "m4a": ("ipod", "aac"),
    "adts": ("adts", "aac"),
    "ogg": ("ogg", "libopus"),
    "webm": ("webm", "libopus"),
    "mkv": ("matroska", "aac"),
    "aiff": ("aiff", "pcm_s16be"),
    "caf": ("caf", "pcm_s16be"),
    "wav": ("wav", "pcm_s16le"),
    "wav-float": ("wav", "pcm_f32le"),
    "mov": ("mov", "alac"),
    "au": ("au", "pcm_mulaw"),
}
"""Muxers and encoders of FFmpeg."""
SOUND_WORDS = (
    *(b"RIFF", b"WAVEfmt ", b"data", b"LIST", b"OggS", b"OpusHead", b"\x01vorbis", b"fLaC", b"ID3\x04", b"\xff\xfb"),
    *(b"ftypisom", b"moov", b"trak", b"mdia", b"stbl", b"stts", b"stsz", b"stco", b"co64", b"trun", b"moof", b"cmov"),
    *(b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67", b"\x1f\x43\xb6\x75", b"\xa3", b"\x01\xff\xff\xff\xff\xff\xff\xff"),
    *(b"FORM", b"AIFFCOMM", b"SSND", b"caff", b"desc", b"#EXTM3U\n", b"ffconcat version 1.0\nfile 'x'\n", b"#!AMR\n"),
)
PICTURE_WORDS = (
    *(b"\x89PNG\r\n\x1a\n", b"IHDR", b"IDAT", b"IEND", b"PLTE", b"tRNS", b"CgBI", b"iCCP", b"acTL", b"\xff\xd8\xff"),
    *(
        b"\xff\xda",
        b"\xff\xc0",
        b"\xff\xc2",
        b"\xff\xc4",
        b"\xff\xdb",
        b"\xff\xdd",
        b"\xff\xd9",
        b"\xff\x00",
        b"JFIF\0",
    ),
    *(
        b"GIF89a",
        b"GIF87a",
        b"\x2c",
        b"\x21\xf9\x04",
        b"\x3b",
        b"BM",
        b"RIFF\0\0\0\0WEBPVP8L",
        b"8BPS",
        b"P6 9 9 255\n",
    ),
)
FORM_WORDS = (
    *(b"\r\n", b"\n", b"--", b"--x", b"--x--", b"\r\n--x\r\n", b"Content-Disposition: form-data", b'; name="file"'),
    *(b'; filename="a.wav"', b"; filename*=utf-8''%ff%00", b'name=""', b"Content-Type: text/plain; charset=utf-7"),
    *(b"Content-Transfer-Encoding: base64\r\n", b"\0", b"\xff\xfe", b'"', b"\\", b";", b": ", b"[]", b"payload"),
)
GGUF_WORDS = (
    *(b"GGUF", b"general.architecture", b"llama", b"gemma3", b"mamba", b"qwen3moe", b"clip", b"llama.block_count"),
    *(b"llama.context_length", b"llama.attention.head_count", b"tokenizer.ggml.tokens", b"tokenizer.ggml.model"),
    *(struct.pack("<I", kind) for kind in range(14)),
    *(struct.pack("<f", number) for number in (math.inf, -math.inf, math.nan, 1e38, -1.0)),
)
TEMPLATE_WORDS = (
    *(b"{% for m in messages %}", b"{% endfor %}", b"{% if tools %}", b"{% else %}", b"{% endif %}", b"{{ messages }}"),
    *(b"{% set ns = namespace(a=1) %}", b"{% set ns.a = ns.a * ns.a %}", b"{% macro f(x) %}{{ f(x) }}{% endmacro %}"),
    *(b"{% for i in range(10**9) %}", b"{{ f(1) }}", b" * 10**9", b" ** 10**9", b"|join", b"|tojson(indent=10**6)"),
    *(b"|center(10**9)", b"|replace('', 'aaaa')", b"|map('upper')|list", b"|batch(9)|list", b"|sort", b"|groupby(0)"),
    *(b"{{ ''.__class__.__mro__ }}", b"{{ messages.__init__.__globals__ }}", b"{{ '%999999999d' % 1 }}", b"{#", b"#}"),
    *(b"{% generation %}", b"{% endgeneration %}", b"{% break %}", b"{% continue %}", b"{%- ", b" -%}", b"loop.index0"),
    *(b"raise_exception('x')", b"strftime_now('%Y' * 99999)", b"{% include 'x' %}", b"{% extends 'x' %}", b"cycler(1)"),
    *(b"{% call f() %}{% endcall %}", b"{% filter upper %}{% endfilter %}", b"lipsum(9)", b"recursive", b"joiner(',')"),
)


@functools.cache
def sounds() -> Mapping[str, bytes]:
    """A rising tone in every form."""
    return {name: _sound(*how) for name, how in CONTAINERS.items()}


def _sound(container: str, codec: str) -> bytes:
    import av
    import numpy

    rate = 48_000 if codec == "libopus" else RATE
    count = int(SECONDS * rate)
    tone = (0.5 * numpy.sin(numpy.arange(count) ** 1.3 / 40)).astype(numpy.float32).reshape(1, -1)
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        stream: Any = file.add_stream(codec, rate=rate, layout="mono")
        frame = av.AudioFrame.from_ndarray(tone, "fltp", "mono")
        frame.sample_rate, frame.pts = rate, 0
        file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return out.getvalue()


@functools.cache
def pictures() -> Mapping[str, bytes]:
    """The same noise in every form that the server reads, and in one that it does not."""
    from PIL import Image

    dice = random.Random(1)
    whole = Image.frombytes("RGB", (24, 16), dice.randbytes(24 * 16 * 3))
    made = {}
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        made[f"png {mode}"] = _picture(
            whole.convert("L").convert("I").convert(mode) if ";" in mode else whole.convert(mode), "PNG"
        )
    for name, mode, how in (
        ("jpeg", "RGB", {}),
        ("jpeg grey", "L", {}),
        ("jpeg CMYK", "CMYK", {}),
        ("jpeg progressive", "RGB", {"progressive": True}),
    ):
        made[name] = _picture(whole.convert(mode), "JPEG", **how)
    frames = [whole.rotate(90 * turn) for turn in range(3)]
    made["gif"] = _picture(whole.convert("P"), "GIF")
    made["gif of three"] = _picture(frames[0], "GIF", save_all=True, append_images=frames[1:])
    for mode in ("1", "P", "RGB", "RGBA"):
        made[f"bmp {mode}"] = _picture(whole.convert(mode), "BMP")
    return made | {"tiff": _picture(whole, "TIFF")}


def _picture(picture: Any, form: str, **how: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, form, **how)
    return out.getvalue()


@functools.cache
def headers() -> Mapping[str, bytes]:
    """GGUF files: a language model of one layer, and the header of a vision projector."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {"llama": _language_model, "clip": _projector}
        return {name: write(Path(folder) / name).read_bytes() for name, write in paths.items()}


WIDTH, WORDS = 32, 40


def _language_model(path: Path) -> Path:
    import gguf
    import numpy

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(["<end>", *(f"w{number}" for number in range(1, WORDS))])
    writer.add_token_types([3, *[1] * (WORDS - 1)])
    writer.add_token_merges(["w 1"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_chat_template(TEMPLATES[0])
    shapes: dict[str, Sequence[int]] = dict.fromkeys(("token_embd", "output"), (WORDS, WIDTH))
    shapes |= dict.fromkeys(("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"), (WIDTH,))
    shapes |= {f"blk.0.{name}": (WIDTH, WIDTH) for name in ("attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}
    shapes |= {f"blk.0.{name}": (WIDTH // 2, WIDTH) for name in ("attn_k", "attn_v")}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", numpy.full(shape, 0.1, numpy.float32))
    return _finished(writer, path)


def _projector(path: Path) -> Path:
    import gguf

    writer = gguf.GGUFWriter(str(path), "clip")
    writer.add_string("clip.projector_type", "qwen2vl_merger")
    for name, number in {
        "image_size": 560,
        "patch_size": 14,
        "embedding_length": 64,
        "feed_forward_length": 128,
    }.items():
        writer.add_uint32(f"clip.vision.{name}", number)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    return _finished(writer, path)


def _finished(writer: Any, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


TEMPLATES = (
    # ChatML, with the calls of Qwen 2.5 and Hermes
    "{%- if tools %}{{- '<|im_start|>system\\n' }}{%- if messages[0]['role'] == 'system' %}"
    "{{- messages[0]['content'] }}{%- endif %}"
    "{{- '\\n# Tools\\n<tools>' }}{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}"
    "{{- '\\n</tools><|im_end|>\\n' }}{%- endif %}{%- for message in messages %}"
    "{%- if message.role == 'assistant' and message.tool_calls %}{{- '<|im_start|>' + message.role }}"
    "{%- for tool_call in message.tool_calls %}{%- if tool_call.function is defined %}"
    '{%- set tool_call = tool_call.function %}{%- endif %}{{- \'\\n<tool_call>\\n{"name": "\' }}{{- tool_call.name }}'
    "{{- '\", \"arguments\": ' }}{{- tool_call.arguments | tojson }}{{- '}\\n</tool_call>' }}{%- endfor %}"
    "{{- '<|im_end|>\\n' }}{%- elif message.role == 'tool' %}{%- if (loop.index0 == 0) or "
    "(messages[loop.index0 - 1].role != 'tool') %}{{- '<|im_start|>user' }}{%- endif %}"
    "{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}{%- else %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}",
    # Turns that must alternate, as Gemma and Mistral write them
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] | trim + '\\n\\n' %}"
    "{% set rest = messages[1:] %}{% else %}{% set first = '' %}{% set rest = messages %}{% endif %}"
    "{% for message in rest %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\\n' + (first if loop.first else '') }}"
    "{% if message['content'] is string %}{{ message['content'] | trim }}"
    "{% elif message['content'] is iterable %}{% for item in message['content'] %}{% if item['type'] == 'text' %}"
    "{{ item['text'] | trim }}{% endif %}{% endfor %}{% endif %}{{ '<end_of_turn>\\n' }}{% endfor %}",
    # A date, a macro and a namespace, as Llama 3 and Command R write them
    "{%- set date = strftime_now('%d %b %Y') %}{%- macro turn(role, text) %}{{- '<|start_header_id|>' ~ role ~ "
    "'<|end_header_id|>\\n\\n' ~ text ~ '<|eot_id|>' }}{%- endmacro %}{%- set ns = namespace(last='', seen=false) %}"
    "{{- turn('system', 'Today Date: ' + date) }}{%- for message in messages | selectattr('role', 'ne', 'system') %}"
    "{%- set ns.last = message.content | default('', true) | string | replace('\\n', ' ') %}{%- set ns.seen = true %}"
    "{{- turn(message.role | upper, ns.last) }}{%- if loop.last and not ns.seen %}{%- break %}{%- endif %}"
    "{%- endfor %}{{- '%s and %05.2f' | format(ns.last, 1.5) }}{{- messages | map(attribute='role') | join(', ') }}",
)
"""In the manner of templates that models bring, shortened."""
