"""The accelerator's figures from what a runtime tells, and how the reports show them."""

from __future__ import annotations

import pytest

from edgeserve.engine import DeviceMemory
from edgeserve.memory.accelerator import DeviceReader
from edgeserve.memory.governor import make_governor
from edgeserve.memory.policy import GB, MemoryPolicy
from edgeserve.memory.readings import Accelerator

CARD = DeviceMemory("cuda", 8 * GB, 5 * GB)


@pytest.mark.parametrize(
    ("devices", "held", "expected"),
    [
        ((), 9, Accelerator()),
        ((CARD,), 2 * GB, Accelerator("cuda", 8 * GB, 5 * GB, active=2 * GB)),
        # On its way up an engine is booked before the device shows it.
        ((CARD,), 4 * GB, Accelerator("cuda", 8 * GB, 5 * GB, active=3 * GB)),
        ((CARD, CARD), 2 * GB, Accelerator("cuda", 16 * GB, 10 * GB, active=2 * GB)),
        ((CARD, DeviceMemory("vulkan", 8 * GB, 5 * GB)), 0, Accelerator("cuda", 8 * GB, 5 * GB)),
        (
            (DeviceMemory("metal", 11 * GB, 9 * GB, unified=True),),
            0,
            Accelerator("metal", 11 * GB, 9 * GB, active=2 * GB, recommended=11 * GB, unified=True),
        ),
    ],
)
def test_devices_are_added_up(devices: tuple[DeviceMemory, ...], held: int, expected: Accelerator) -> None:
    assert DeviceReader(lambda: devices, lambda: held).read() == expected


def test_the_reports_show_the_card() -> None:
    governor = make_governor(MemoryPolicy(), devices=lambda: [CARD])
    told = governor.stats()
    assert (told["accelerator"], told["cuda_available"], told["total_mb"], told["free_mb"]) == (
        "cuda",
        True,
        8 << 10,
        5 << 10,
    )
    assert told["budget_usable_mb"] == 5 << 10
    assert governor.defragment() == {"status": "defragmentation_triggered"}


def test_without_one_the_reports_say_so() -> None:
    told = make_governor(MemoryPolicy()).stats()
    assert (told["accelerator"], told["cuda_available"]) == ("none", False)
