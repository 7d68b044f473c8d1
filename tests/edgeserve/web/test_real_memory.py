"""Both panels on a real model: it is loaded and unloaded by hand, and its bytes come back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.browser import needs_browser, opened
from support.server import Running

pytestmark = [pytest.mark.models, pytest.mark.slow, needs_browser]


def test_a_model_goes_up_and_its_memory_comes_back(browser: Any, starters: Running) -> None:
    with opened(browser, f"{starters.url}#models") as tab:
        page = tab.page
        row = page.locator(".model").filter(has_text="smollm2")
        row.get_by_role("button", name="Load: ", exact=False).first.click()
        row.locator(".rung.hot").wait_for()
        assert int(re.sub(r"\D", "", row.locator(".figure").inner_text())) > 50
        page.get_by_role("link", name="Memory").click()
        told = page.get_by_role("list", name="Last events")
        told.get_by_text(re.compile(r"smollm2\S* went up to hot in [\d.]+ s. It took \d+ MB")).wait_for()
        page.get_by_role("link", name="Models").click()
        row.get_by_role("button", name="Unload: ").click()
        row.locator(".rung.cold").wait_for()
        page.get_by_role("link", name="Memory").click()
        line = told.get_by_text(re.compile(r"smollm2\S* stepped down to cold: by hand"))
        line.wait_for()
        freed, expected = (int(one) for one in re.findall(r"(\d+) MB", line.inner_text()))
        assert freed > 0.5 * expected > 25
        assert (tab.errors, tab.foreign) == ([], [])
