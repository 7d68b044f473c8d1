from __future__ import annotations

from typing import Any

from benchmarks.fuzz import schema_page
from benchmarks.fuzz.conformance import Seen
from benchmarks.fuzz.house import Held

REPORT: dict[str, Any] = {
    "schemathesis_version": "4.32.5",
    "test_cases": {"generated": 1000},
    "phases": {"examples": {"status": "skip"}, "fuzzing": {"status": "success"}},
    "valid_rates": {
        "POST /v1/chat": {
            "fuzzing": {"accepted": 7, "rejected": 2, "unreachable": 1, "conflicts": 0},
            "stateful": {"accepted": 1, "rejected": 0, "unreachable": 0, "conflicts": 1},
        }
    },
}


def test_the_page_tells_both_runs() -> None:
    seen = Seen(7, 60, reports=[REPORT, REPORT], held=[Held(30.0, 7), Held(31.5, 8)], seconds=90.4, cpu=20.6)
    seen.excused["each model has its own dimensions"] = 12
    text = schema_page.text(seen)
    assert text.startswith("schemathesis 4.32.5, 2,000 requests of seed 7 in 90 s, 21 s of processor time")
    assert "phases fuzzing: `python -m benchmarks.fuzz.schema --seed 7 --examples 60`" in text
    assert "**No fault.**" in text
    assert "| POST /v1/chat | 16 | 4 | 4 |" in text
    assert "| memory, Pss, MB | 30.0 | 31.5 |" in text
    assert "| `POST /v1/embeddings` | each model has its own dimensions | 12 |" in text


def test_faults_are_listed_also_of_a_run_without_a_report() -> None:
    text = schema_page.text(Seen(7, 60, reports=[{}], faults=["the server ended with code 1"]))
    assert "**1 faults:**\n\n- the server ended with code 1" in text
