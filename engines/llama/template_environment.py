"""A Jinja sandbox whose rendering keeps a budget."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from edgeserve.engines.llama.template_budget import BRACES, GUARDED, Guards


def environment(**options: Any) -> Any:
    """A sandbox whose ``render`` keeps a budget. Any thread, several at a time."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(Guards, ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(("+", "*", "**", "%"))
        code_generator_class = _code_generator()

        def __init__(self) -> None:
            super().__init__(**options)
            self.current = threading.local()
            self.concat = self.joined  # type: ignore[method-assign]
            self.globals["range"] = self.range
            del self.globals["lipsum"]
            self.filters |= {name: self.guarded(name, self.filters[name]) for name in GUARDED}

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            self.check_operator(operator, left, right)
            return super().call_binop(context, operator, left, right)

        def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
            owner = getattr(obj, "__self__", None)
            if isinstance(owner, str | bytes | int):
                self.check_method(owner if not isinstance(owner, int) else "", obj.__name__, (*args, *kwargs.values()))
            return super().call(context, obj, *args, **kwargs)

        def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
            wrapped = super().wrap_str_format(value)
            if wrapped is None:
                return None

            @functools.wraps(wrapped)
            def checked(*args: Any, **kwargs: Any) -> str:
                self.check_format(BRACES, value.__self__)
                return wrapped(*args, **kwargs)

            return checked

    return Environment()


def _code_generator() -> Any:
    """Jinja's code generator, which compiles ``~`` to a call of the environment, as a sandbox compiles ``+``."""
    from jinja2 import nodes
    from jinja2.compiler import CodeGenerator, Frame

    class Concatenating(CodeGenerator):
        def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
            self.write("environment.joined((")
            for one in node.nodes:
                self.visit(one, frame)
                self.write(", ")
            self.write("))")

    return Concatenating
