"""The engine's reference for the built documentation: its public names, as their source has them.

Nothing is imported and nothing retold: signatures, fields and docstrings are cut out of the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIRST = ("engine.engine", "engine.commands", "engine.events.events", "engine.events.cache", "engine.settings")
HEAD = """# Engine reference

Every public name of the engine, as its source declares and explains it.
[The engine's public face](engine-api.md) is the tour of it.

"""


@dataclass(frozen=True, slots=True)
class Source:
    """A module's text and syntax tree."""

    path: Path
    text: str
    tree: ast.Module


def page() -> str:
    """The whole page as Markdown. Raises KeyError for a public name that its module does not define."""
    names = public_names()
    modules = [*FIRST, *sorted(names.keys() - set(FIRST))]
    return HEAD + "\n".join(_section(module, names[module]) for module in modules)


def public_names() -> dict[str, list[ast.alias]]:
    """What is imported from each module, in the order of `engine/__init__.py`."""
    found: dict[str, list[ast.alias]] = {}
    for node in _read(ROOT / "engine" / "__init__.py").tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "engine":
            found.setdefault(node.module, []).extend(node.names)
    return found


def _section(module: str, names: list[ast.alias]) -> str:
    source = _source_of(module)
    where = source.path.relative_to(ROOT).as_posix()
    about = ast.get_docstring(source.tree) or ""
    parts = [f"## `{where}`\n\n{about}\n"]
    for name in names:
        public = name.asname or name.name
        parts.append(f"### {public}\n\n```python\n{_declaration(source, name.name)}\n```\n")
    return "\n".join(parts)


def _source_of(module: str) -> Source:
    path = ROOT.joinpath(*module.split("."))
    return _read(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))


def _read(path: Path) -> Source:
    text = path.read_text("utf-8")
    return Source(path, text, ast.parse(text))


def _declaration(source: Source, name: str) -> str:
    """What the module says of `name`; a name that it only hands on is looked up where it comes from."""
    body = source.tree.body
    for place, node in enumerate(body):
        if isinstance(node, ast.ImportFrom) and node.module:
            original = {alias.asname or alias.name: alias.name for alias in node.names}.get(name)
            if original is not None:
                return _declaration(_source_of(node.module), original)
        if name in _defined(node):
            after = body[place + 1] if place + 1 < len(body) else None
            return "\n".join(_stub(source, node, after))
    raise KeyError(f"{source.path.name} does not define {name}")


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _stub(source: Source, node: ast.stmt, after: ast.stmt | None) -> Iterator[str]:
    """The lines of a declaration, without what functions do."""
    if isinstance(node, ast.ClassDef):
        yield from _class(source, node)
    elif isinstance(node, ast.FunctionDef):
        yield from _function(source, node)
    else:
        yield from _lines(source, node)
        if after is not None and _is_text(after):
            yield from _lines(source, after)


def _class(source: Source, node: ast.ClassDef) -> Iterator[str]:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    yield from source.text.splitlines()[first - 1 : node.body[0].lineno - 1]
    for member in node.body:
        if isinstance(member, ast.FunctionDef):
            if not member.name.startswith("_") or member.name == "__init__":
                yield ""
                yield from _function(source, member)
        elif _is_text(member) or not any(name.startswith("_") for name in _defined(member)):
            yield from _lines(source, member)


def _function(source: Source, node: ast.FunctionDef) -> Iterator[str]:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    yield from source.text.splitlines()[first - 1 : node.body[0].lineno - 1]
    if _is_text(node.body[0]):
        yield from _lines(source, node.body[0])


def _lines(source: Source, node: ast.stmt) -> list[str]:
    return source.text.splitlines()[node.lineno - 1 : node.end_lineno]


def _is_text(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
