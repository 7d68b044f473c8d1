"""The parts of a schema that references and ``allOf`` lead to."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from edgeserve.engines.grammar.rules import Rules, Unsayable
from edgeserve.engines.grammar.schema_keywords import told
from edgeserve.engines.grammar.schema_parts import merge, width

MAX_DEPTH = 100
"""Parts within parts; each reference and each union counts as a level. Python's stack must hold them."""
INDEX = re.compile(r"[0-9]{1,9}")


class Parts:
    """Parts of the schema ``root``. Their work counts in the budget of ``rules``. ``assertions``: those of a part."""

    def __init__(self, root: Any, rules: Rules, assertions: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._root = root
        self._rules = rules
        self._assertions = assertions

    def resolve(self, ref: str) -> Any:
        """The part that a reference names. Raises Unsayable."""
        if not (ref == "#" or ref.startswith("#/")):
            raise Unsayable(f"refers to {told(ref)}; only paths inside the schema (#/…) are followed")
        target = self._root
        self._rules.spend(len(ref) // 16)
        for step in ref.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and INDEX.fullmatch(step) and int(step) < len(target):
                target = target[int(step)]
            elif isinstance(target, dict) and step in target:
                target = target[step]
            else:
                raise Unsayable(f"refers to {told(ref)}, which is not there")
        return target

    def plain(self, schema: Any, followed: frozenset[str] = frozenset(), depth: int = 0) -> dict[str, Any]:
        """The schema with $ref and allOf resolved. Raises Unsayable."""
        self._rules.count(1)
        if depth > MAX_DEPTH:
            raise Unsayable(f"joins parts more than {MAX_DEPTH} levels deep, references included")
        if not isinstance(schema, dict):
            if schema is True:
                return {}
            raise Unsayable("joins parts of which one allows nothing")
        self._rules.spend(width(schema))
        rest = self._assertions(schema)
        parts = []
        if "$ref" in rest:
            ref = rest.pop("$ref")
            if ref in followed:
                raise Unsayable(f"refers to itself ({told(ref)[1:-1]}) with nothing in between")
            parts.append(self.plain(self.resolve(ref), followed | {ref}, depth + 1))
        parts += [self.plain(part, followed, depth + 1) for part in rest.pop("allOf", [])]
        return merge([rest, *parts], self._rules.spend) if parts else rest
