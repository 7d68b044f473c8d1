"""Properties of Hypothesis: a busy machine fails none of them."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from support.cases import each
from support.examples import examples


@each("made", [settings.default, examples(20), examples(20, [HealthCheck.data_too_large])])
def test_no_property_has_a_time_limit(made: settings) -> None:
    assert made.deadline is None
    assert HealthCheck.too_slow in made.suppress_health_check
