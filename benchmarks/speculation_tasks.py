"""Tasks whose answers repeat their prompts, free texts that do not, and JSON schemas.

The answers are written here, as a good model would give them. So guesses come true as often as in real use, whatever
model reads them, and two ways of decoding have the same tokens to decode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Task:
    prompt: str
    answer: str


LETTER = (
    "Dear Mrs Larsen, thank you for you're letter of 3 March about the repair of the harbour wall. The council "
    "have discussed it on Tuesday and decided that the work will begin in april, once the storms are over. The cost, "
    "48,200 crowns, is payed by the county and by the harbour fund in equal parts. Boats at the north pier have to be "
    "moved until 28 March; the harbour master will tell every owner where to. We are sorry for the noise, and "
    "we hope that the wall will than stand for another hundred years. Yours sincerely, Ole Brandt, clerk of council."
)
CORRECTED = (
    LETTER.replace("you're letter", "your letter")
    .replace("council have", "council has")
    .replace("april", "April")
    .replace("is payed", "is paid")
    .replace("will than", "will then")
)
NOTICE = (
    "The evening train to the coast leaves from platform 4 at 18:05 and stops at Mill Road, Ashford and Seaview. On "
    "Sundays it leaves ten minutes later. Bicycles may be taken along in the last carriage, which has room for twelve "
    "of them. Passengers who change at Ashford for the island ferry should sit in the front half of the train, because "
    "the platform there is short. Tickets are sold at the counter until half past five and on the train after that. "
    "Dogs travel free of charge if they are small enough to sit on a lap."
)
POLITE = NOTICE.replace("should sit", "are kindly asked to sit").replace("18:05", "18:15").replace("twelve", "ten")
CODE = """def mean(values):
    total = 0
    for value in values:
        total += value
    return total / len(values)


def variance(values):
    middle = mean(values)
    total = 0
    for value in values:
        total += (value - middle) ** 2
    return total / len(values)


def histogram(values, bins):
    low, high = min(values), max(values)
    width = (high - low) / bins
    counts = [0] * bins
    for value in values:
        index = min(int((value - low) / width), bins - 1)
        counts[index] += 1
    return counts
"""
EDITED = CODE.replace(
    "    total = 0\n", "    if not values:\n        raise ValueError('no values')\n    total = 0\n", 1
).replace("(values, bins):", "(values: list[float], bins: int = 10) -> list[int]:")
RENAMED = CODE.replace("total", "result")
ORDERS = (
    "Order 5512 of 12 May: Green Valley Farm, 14 Station Road, Lower Wick, wants 40 bags of oats and 9 boxes of leeks, "
    "to be delivered before 9 in the morning. Order 5513 of 12 May: Hotel Continental, 2 Market Square, Port Evening, "
    "wants 6 crates of strawberries and 25 kilograms of potatoes, at the back door. Order 5514 of 13 May: Saint "
    "Mary's School, 71 Hill Street, Lower Wick, wants 120 apples and 30 litres of milk every Monday until July."
)
EXTRACTED = (
    "5512; Green Valley Farm; 14 Station Road, Lower Wick; 40 bags of oats and 9 boxes of leeks\n"
    "5513; Hotel Continental; 2 Market Square, Port Evening; 6 crates of strawberries and 25 kilograms of potatoes\n"
    "5514; Saint Mary's School; 71 Hill Street, Lower Wick; 120 apples and 30 litres of milk every Monday until July\n"
)
QUOTED = (
    'The letter says: "Boats at the north pier have to be moved until 28 March; the harbour master will tell '
    'every owner where to." The cost is 48,200 crowns, paid "by the county and by the harbour fund in equal parts".'
)
STORY = (
    "Nobody in the village had expected snow before the apples were in. It fell through one whole night, without wind, "
    "and in the morning the orchard looked as if someone had drawn it with a soft pencil. Anna found the ladder by its "
    "shadow. She climbed up, shook the first branch and laughed, for the fruit came down with the snow and left red "
    "holes in the white. By noon her brothers had brought sledges instead of baskets, and the youngest declared that "
    "from now on every harvest should be done this way."
)
ADVICE = (
    "A bicycle that squeaks mostly wants oil, but not everywhere. Begin with the chain: wipe it, put one drop on each "
    "link, turn the pedals backwards for a minute and wipe again. If the noise comes only when you brake, look at the "
    "pads instead; sand in them sings like a violin. Loose spokes click once a turn. Should none of this help, ride up "
    "a hill and listen, since a dry bottom bracket complains only under load."
)
ANSWER = (
    "Tides follow the moon because gravity weakens with distance. The ocean that faces it is pulled a little more than "
    "the ground below, and the far side a little less, so water piles up twice. While our planet spins, each coast "
    "passes both bulges in roughly twenty-five hours. The sun adds its own share: at full and new moon everything "
    "lines up and harbours see springs; at the quarters, neaps."
)

TASKS: Mapping[str, Sequence[Task]] = {
    "rewriting": (
        Task(f"Correct the mistakes in this letter.\n\n{LETTER}\n\nThe corrected letter:\n\n", CORRECTED),
        Task(f"Make this notice polite, ten bicycles, 18:15.\n\n{NOTICE}\n\nThe new notice:\n\n", POLITE),
    ),
    "extraction": (
        Task(f"{ORDERS}\n\nList number; customer; address; goods, an order a line.\n\n", EXTRACTED),
        Task(f"{LETTER}\n\nWhich boats must be moved, and who pays? Quote the letter.\n\n", QUOTED),
    ),
    "code edits": (
        Task(f"{CODE}\nThe same module, which refuses no values, with types for histogram:\n\n", EDITED),
        Task(f"{CODE}\nThe same module with total renamed to result:\n\n", RENAMED),
    ),
    "free text": (
        Task("Tell me a short story about an early winter.\n\n", STORY),
        Task("My bicycle squeaks. What can I do?\n\n", ADVICE),
        Task("Explain the tides in a few sentences.\n\n", ANSWER),
    ),
}


def _record(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _text(longest: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": longest}


NUMBER, FLAG = {"type": "integer", "minimum": 0, "maximum": 9999}, {"type": "boolean"}


def _one_of(*words: str) -> dict[str, Any]:
    return {"enum": list(words)}


SCHEMAS: Mapping[str, dict[str, Any]] = {
    "a person": _record(first_name=_text(12), last_name=_text(16), age=NUMBER, email_address=_text(24)),
    "a ticket": _record(
        title=_text(30),
        priority=_one_of("low", "medium", "high", "urgent"),
        component=_one_of("frontend", "backend", "database", "infrastructure"),
        needs_more_information=FLAG,
    ),
    "a product": _record(product_name=_text(20), price_in_cents=NUMBER, in_stock=FLAG, warehouse_location=_text(12)),
    "the mood of a review": _record(
        sentiment=_one_of("positive", "neutral", "negative"), confidence_percent=NUMBER, mentions_price=FLAG
    ),
    "the weather": _record(
        temperature_celsius=NUMBER,
        condition=_one_of("sunny", "cloudy", "rainy", "snowy", "stormy"),
        wind_direction=_one_of("north", "east", "south", "west"),
        wind_speed_kilometers_per_hour=NUMBER,
    ),
    "a place": _record(
        coordinates=_record(latitude=NUMBER, longitude=NUMBER), country_code=_text(2), description=_text(30)
    ),
    "a function to call": _record(
        function_name=_one_of("search_documents", "send_message", "create_calendar_event"),
        arguments=_record(query=_text(24), maximum_number_of_results=NUMBER),
    ),
    "an invoice": _record(
        invoice_number=NUMBER,
        customer=_record(company_name=_text(20), vat_identification_number=_text(12)),
        total_amount_in_cents=NUMBER,
        payment_status=_one_of("paid", "outstanding", "overdue"),
    ),
    "three tags": {"type": "array", "items": _record(tag=_text(10), relevance=NUMBER), "minItems": 3, "maxItems": 3},
    "device settings": _record(
        display_brightness_percent=NUMBER,
        automatic_updates_enabled=FLAG,
        power_saving_mode=_one_of("disabled", "balanced", "aggressive"),
        preferred_network_interface=_one_of("ethernet", "wireless", "cellular"),
    ),
}
