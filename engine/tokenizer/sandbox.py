"""Where a stranger's template runs: Jinja's immutable sandbox with limits on time and memory.

Jinja's sandbox keeps a template from reaching Python; it does not keep it from looping for ever or from
asking for a string of ten gigabytes. Here every loop step, call, filter and operator that can make text grow
first asks a `Budget`. Within its limits a template renders exactly what it would without them. Nothing of it
runs while it is compiled, when no clock does.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from engine.tokenizer.budget import MAX_INTEGER_BITS, MAX_NAME, Budget, TemplateTooLarge


class Refusal(jinja2.TemplateError):
    """The template called raise_exception: the conversation is not one it can render."""


class Sandbox(ImmutableSandboxedEnvironment):
    """A Jinja environment set up as Hugging Face sets its own up, under a budget."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self, budget: Budget, now: Callable[[], datetime]) -> None:

        @jinja2.pass_context  # Jinja then has no finalize to call, with what it takes for constants, itself
        def write(_context: Context, value: Any) -> Any:
            return budget.write(value)

        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_GenerationTag, "jinja2.ext.loopcontrols"],
            finalize=write,
            optimized=False,
        )

        def strftime_now(form: str) -> str:
            if len(form) > MAX_NAME:
                raise TemplateTooLarge("asks for a date in a format of more than 1000 characters")
            return now().strftime(form)

        self._budget = budget
        self.concat = budget.concat
        self.filters["tojson"] = self._to_json
        self.filters = {name: _limited(name, function, budget) for name, function in self.filters.items()}
        self.filters.update({_STEPS: budget.steps, _CHECK: budget.check, _MADE: budget.made})
        del self.globals["lipsum"]
        cast("dict[str, object]", self.globals).update(
            dict=_make_dict,
            namespace=_Namespace,
            raise_exception=_raise_exception,
            strftime_now=strftime_now,
        )

    def compile_template(self, source: str) -> jinja2.Template:
        """The template of `source`, its loops and concatenations under the budget.

        Raises jinja2.TemplateError when it cannot be parsed.
        """
        tree = _Limits().visit(self.parse(source))
        return self.from_string(tree.set_environment(self))

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Called for every call in a template."""
        method = getattr(obj, "__wrapped__", obj)  # jinja2 wraps str.format to keep it inside the sandbox
        receiver = getattr(method, "__self__", None)
        self._budget.check((args, kwargs))
        if isinstance(receiver, str):
            args = tuple(self._budget.admit(method.__name__, value) for value in args)
            self._budget.check_call(method.__name__, receiver, *args, *kwargs.values())
        else:
            self._budget.tick()
        return self._budget.made(super().call(context, obj, *args, **kwargs))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Bytes stay out of reach: their methods are not limited."""
        return attr not in _TO_BYTES and super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Called for every operator of `intercepted_binops`."""
        self._budget.check_operator(operator, left, right)
        return self._budget.made(super().call_binop(context, operator, left, right))

    def _to_json(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """JSON as Hugging Face templates expect it: not escaped for HTML, as Jinja's own is."""
        if (indent if isinstance(indent, int) else len(indent or "")) > MAX_NAME:
            raise TemplateTooLarge("makes too much text")
        encoder = json.JSONEncoder(
            ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        return self._budget.concat(encoder.iterencode(value))


_STEPS = "mlxr budget: steps"
_CHECK = "mlxr budget: check"
_MADE = "mlxr budget: made"
_TO_BYTES = frozenset({"encode", "from_bytes", "to_bytes"})


class _Limits(NodeTransformer):
    """Puts what loops, assignments, slices and `~` work on or make through filters that ask the budget.

    No variable of a template then holds more than the limit. Templates cannot name these filters.
    """

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802  (jinja2 looks for this name)
        self.generic_visit(node)
        node.iter = _filtered(cast(nodes.Expr, node.iter), _STEPS)
        return node

    def visit_Assign(self, node: nodes.Assign) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.node = _filtered(cast(nodes.Expr, node.node), _CHECK)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [_filtered(operand, _CHECK) for operand in node.nodes]
        return _filtered(node, _MADE)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filtered(node, _MADE) if isinstance(node.arg, nodes.Slice) else node

    def visit_Const(self, node: nodes.Const) -> nodes.Node:  # noqa: N802
        if isinstance(node.value, int) and node.value.bit_length() > MAX_INTEGER_BITS:
            raise TemplateTooLarge(f"has a number of more than {MAX_INTEGER_BITS} bits")
        return node


def _filtered(node: nodes.Expr, name: str) -> nodes.Filter:
    made = nodes.Filter(node, name, [], [], None, None)
    made.set_lineno(node.lineno)
    return made


def _limited(name: str, function: Callable[..., Any], budget: Budget) -> Callable[..., Any]:
    """A filter under the budget; Jinja's marks on the function, copied by `wraps`, keep their meaning."""

    @functools.wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        budget.check(kwargs)
        args = tuple(budget.admit(name, value) for value in args)
        passed = (jinja2.Environment, Context, nodes.EvalContext)  # what Jinja itself puts first
        values = [value for value in args if not isinstance(value, passed)]
        budget.check_call(name, *values, *kwargs.values())
        return budget.made(function(*args, **kwargs))

    return limited


class _GenerationTag(Extension):
    """`{% generation %}…{% endgeneration %}` marks what to train on; here it is its body."""

    tags = {"generation"}  # noqa: RUF012  (the base class declares it so)

    def parse(self, parser: Parser) -> nodes.Node:
        """The tag's body, in a scope of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Namespace(Namespace):
    """Jinja's `namespace`, without names that could shadow Python's own."""

    def __init__(self, *args: Mapping[str, Any], **values: Any) -> None:
        attributes = dict(*args, **values)
        for name in attributes:
            _check_name(name)
        super().__init__(attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)

    def __repr__(self) -> str:
        """Without what it holds, which may hold itself, or be an avalanche."""
        return "<Namespace>"


def _check_name(name: object) -> None:
    if str(name).startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace may not hold the name {name!r}")


def _make_dict(*args: Any, **values: Any) -> dict[Any, Any]:
    """The builtin `dict`, as a function: a template gets no hold of the class."""
    return dict(*args, **values)


def _raise_exception(message: object) -> None:
    raise Refusal(str(message))
