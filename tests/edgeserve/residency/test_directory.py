"""Names of models: which one a request means."""

from __future__ import annotations

from support.cases import each

from edgeserve.engine import ModelSpec
from edgeserve.jobs import CHAT, Job
from edgeserve.residency.directory import Directory, Terms


def directory(*models: tuple[ModelSpec, Terms]) -> Directory:
    made = Directory()
    for spec, terms in models:
        made.add(spec, terms)
    return made


def model(model_id: str, job: Job = "llm", name: str = "") -> ModelSpec:
    return ModelSpec(job, name or model_id, "edgeserve.engines.fake.engine:FakeChat", id=model_id)


SERVED = directory(
    (model("big"), Terms("qwen-7b", ("gpt-4*", "Clever"))),
    (model("llm", name="smollm2"), Terms("smollm2", ("gpt-*",))),
    (model("eyes", "vision"), Terms("smolvlm", ("gpt-4-vision",))),
    (model("ears", "asr"), Terms("whisper-small")),
    (model("ears2", "asr"), Terms("whisper-large", default=True)),
)


@each(
    ("name", "jobs", "found"),
    [
        ("", CHAT, "llm"),
        ("", ("vision",), "eyes"),
        ("", ("asr",), "ears2"),
        ("", ("tts",), None),
        ("BIG", CHAT, "big"),
        ("SmolLM2", CHAT, "llm"),
        ("qwen-7b", CHAT, "big"),
        ("clever", CHAT, "big"),
        ("gpt-4o", CHAT, "llm"),
        ("gpt-3.5-turbo", CHAT, "llm"),
        ("gpt-4-vision", CHAT, "eyes"),
        ("gpt-4-vision", ("llm",), "llm"),
        ("whisper-small", ("asr",), "ears"),
        ("whisper-small", CHAT, None),
        ("asr", ("asr",), "ears2"),
        ("ASR", (*CHAT, "asr"), "ears2"),
        ("asr", CHAT, None),
        ("vision", CHAT, "eyes"),
        ("tts", ("tts",), None),
        ("nobody", CHAT, None),
        ("gpt", CHAT, None),
    ],
)
def test_a_name_means_one_model(name: str, jobs: tuple[Job, ...], found: str | None) -> None:
    assert SERVED.find(name, jobs) == found


def test_the_default_of_a_job_comes_first_then_its_own_table() -> None:
    assert [one.id for one in SERVED.of(("llm", "asr"))] == ["llm", "big", "ears2", "ears"]


def test_a_model_that_is_served_by_name_is_no_default() -> None:
    shelved = model("shelved"), Terms("shelved", by_name=True)
    assert directory(shelved).find("", CHAT) is None
    both = directory(shelved, (model("eyes", "vision"), Terms()))
    assert (both.find("", CHAT), both.find("shelved", CHAT)) == ("eyes", "shelved")
    three = directory(shelved, (model("llm"), Terms()), (model("big"), Terms()))
    assert [one.id for one in three.of(CHAT)] == ["llm", "big", "shelved"]


def test_every_job_has_one_default() -> None:
    assert SERVED.defaults() == {"llm", "eyes", "ears2"}
    assert directory((model("big"), Terms(by_name=True))).defaults() == set()


def test_the_names_of_a_model() -> None:
    assert SERVED.names("big") == ("big", "gpt-4*", "Clever")
    assert SERVED.names("llm") == ("smollm2", "gpt-*")


def test_a_model_that_left_is_not_found() -> None:
    changed = directory((model("a"), Terms()), (model("b"), Terms()))
    changed.remove("a")
    changed.remove("a")
    assert changed.find("a", CHAT) is None
    assert changed.find("", CHAT) == "b"


@each(
    ("name", "found"),
    [
        ("big:latest", "big"),
        ("hosted_vllm/qwen-7b", "big"),
        ("openrouter/org/Clever:latest", "big"),
        ("openai/gpt-4o", "llm"),
        ("openai/nobody", None),
    ],
)
def test_a_provider_and_a_tag_are_no_part_of_a_name(name: str, found: str | None) -> None:
    assert SERVED.find(name, CHAT) == found


def test_the_whole_name_wins_over_a_shorter_one() -> None:
    both = directory((model("llama"), Terms()), (model("org/llama"), Terms()), (model("llama:latest"), Terms()))
    assert both.find("org/llama", CHAT) == "org/llama"
    assert both.find("llama:latest", CHAT) == "llama:latest"


@each(
    ("served", "jobs", "found"),
    [
        (SERVED, CHAT, "llm"),  # the job's own table
        (SERVED, ("asr",), "ears2"),  # default = true
        (SERVED, ("vision",), "eyes"),  # the only one
        (SERVED, ("embedding", *CHAT), "llm"),  # no model of the first job
        (SERVED, ("tts",), None),
        (directory((model("a"), Terms()), (model("b"), Terms())), CHAT, None),  # nobody says which
        (directory((model("a"), Terms()), (model("b"), Terms(by_name=True))), CHAT, "a"),
        (directory((model("a"), Terms(by_name=True))), CHAT, None),
    ],
)
def test_the_clear_default_stands_in(served: Directory, jobs: tuple[Job, ...], found: str | None) -> None:
    assert served.stand_in(jobs) == found


@each(
    ("jobs", "found"),
    [(("vision",), "eyes"), (("asr",), None), (("tts",), None), (("tts", "vision"), "eyes"), (CHAT, None)],
)
def test_the_only_model_of_the_first_job_that_has_one(jobs: tuple[Job, ...], found: str | None) -> None:
    assert SERVED.only(jobs) == found


def test_a_model_that_is_served_by_name_is_not_the_only_one() -> None:
    by_name = directory((model("eyes", "vision"), Terms(by_name=True)), (model("more", "vision"), Terms()))
    assert by_name.only(("vision",)) == "more"
