"""The window opens before anything of Hugging Face's is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODULES = sorted(f"app.hub.{path.stem}" for path in (ROOT / "app" / "hub").glob("[a-z]*.py"))


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    heavy = "{'huggingface_hub', 'httpx2', 'keyring', 'secretstorage', 'PySide6'}"
    code = f"import sys, {', '.join(MODULES)}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
