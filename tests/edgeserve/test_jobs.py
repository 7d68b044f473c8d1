"""The one table of jobs: complete, and in step with the catalogue, the engines and the settings."""

from __future__ import annotations

import importlib
import typing
from pathlib import Path

import pytest

from edgeserve import config, messages
from edgeserve.engine import Engine, ModelSpec
from edgeserve.hosts.inbox import KINDS
from edgeserve.jobs import ALL_JOBS, INFO, Job, JobInfo
from edgeserve.models import catalog, manifest
from edgeserve.models.entry import FORMER, RUNNERS
from edgeserve.residency.work import METHODS

jobs = pytest.mark.parametrize("job", INFO.values(), ids=lambda job: job.name)


def named(import_string: str) -> typing.Any:
    module, _, name = import_string.partition(":")
    return getattr(importlib.import_module(module), name)


def test_every_job_has_one_entry() -> None:
    assert typing.get_args(Job) == ALL_JOBS
    assert all(job == one.name for job, one in INFO.items())


@jobs
def test_the_engines_of_a_job_exist_and_answer_its_requests(job: JobInfo, tmp_path: Path) -> None:
    for import_string in (job.engine, *job.other_engines):
        engine = named(import_string)(ModelSpec(job.name, "model", import_string, {"model": tmp_path / "missing"}))
        assert isinstance(engine, Engine)
        assert callable(getattr(engine, job.method))
        assert import_string in RUNNERS[job.name]


@jobs
def test_requests_of_a_job_may_be_answered_from_a_worker(job: JobInfo) -> None:
    request = getattr(messages, job.request)
    assert METHODS[request] == job.method
    assert KINDS[request]
    assert set(KINDS[request]) <= set(typing.get_args(messages.Event))


@jobs
def test_engines_stored_by_version_0_1_have_a_name_of_today(job: JobInfo) -> None:
    assert set(job.former.values()) <= {job.engine, *job.other_engines}
    assert {former: FORMER[former] for former in job.former} == job.former


@jobs
def test_the_example_of_a_job_is_a_model_of_the_catalogue(job: JobInfo) -> None:
    entry = catalog.MODELS[job.example]
    assert entry.job == job.name
    assert {catalog.MODELS[name].job for name in job.companions.values()} <= {"vad"}
    assert manifest.NEEDED[job.name] == job.files


@jobs
def test_the_settings_know_the_table_and_the_variable_of_a_job(job: JobInfo) -> None:
    assert config.tables()[job.name][0] == "model"
    assert config.ENGINE_VARIABLES[job.variable] == (job.name, "model")
    assert config.load({"EDGESERVE_" + job.variable: "x.gguf"}).models[job.name].model == "x.gguf"
    assert config.options_of(job.name) is named(job.options)


@pytest.mark.parametrize("word", ["name", "kind", "variable", "words"])
def test_words_of_jobs_are_unique(word: str) -> None:
    assert len({getattr(job, word) for job in INFO.values()}) == len(INFO)
