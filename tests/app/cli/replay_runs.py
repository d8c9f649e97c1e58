"""Files for `mlxr replay`, and runs of it that end well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.app.cli.conftest import Run

REPLAYS = Path(__file__).parent / "replays"


def write(folder: Path, *lines: dict[str, Any] | str) -> Path:
    file = folder / "requests.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_text("\n".join(texts), "utf-8")
    return file


def played(run: Run, *arguments: object) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The results by id, in order of ending, and the totals, of a run that ends well."""
    done = run("replay", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    *results, last = map(json.loads, done.stdout.splitlines())
    return {result["id"]: result for result in results}, last["totals"]
