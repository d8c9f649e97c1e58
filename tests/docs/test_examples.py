"""Python in the documentation runs as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, ROOT, examples

EXAMPLES = [(path, place, text) for path in DOCUMENTS for place, text in enumerate(examples(path))]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            text, id=f"{path.stem}-{place}", marks=() if path.stem == "engine-api" else pytest.mark.long
        )
        for path, place, text in EXAMPLES
    ],
)
def test_it_runs(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "resources").symlink_to(ROOT / "resources")
    monkeypatch.chdir(tmp_path)
    exec(compile(text, "example", "exec"), {})
    assert "print(" not in text or capsys.readouterr().out.strip()


def test_there_are_some() -> None:
    assert {path.stem for path, _, _ in EXAMPLES} >= {"engine-api", "kernels"}
