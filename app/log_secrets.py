"""What a log must not hold: tokens, keys, passwords and signed addresses, taken out of any text."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

HIDDEN = "…"
SHORTEST = 8
"""Characters of a secret at least: shorter values are words and numbers."""

_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_VALUE = rf"[^\s\"',;&]{{{SHORTEST},}}"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<=://)[^/\s@]+@"), f"{HIDDEN}@"),  # a name and a password in an address
    (re.compile(r"(https?://[^\s\"'?]+)\?[^\s\"']+"), rf"\1?{HIDDEN}"),  # what signs an address
    (re.compile(r"\bhf_[A-Za-z0-9]{8,}"), f"hf_{HIDDEN}"),
    (re.compile(r"\bsk-[\w-]{8,}"), f"sk-{HIDDEN}"),
    (re.compile(rf"(?i)\b(bearer|basic)\s+{_VALUE}"), rf"\1 {HIDDEN}"),
    (
        re.compile(
            r"(?i)((?:authorization|api[-_ ]?key|token|password|passwd|secret|signature)"
            rf"[\"']?\s*[:=]\s*[\"']?)(?!(?:bearer|basic)\s){_VALUE}"
        ),
        rf"\1{HIDDEN}",
    ),
)


def without_secrets(text: str, environ: Mapping[str, str] | None = None) -> str:
    """`text` with what looks like a secret, or is one of this environment's, replaced."""
    environ = os.environ if environ is None else environ
    for variable in _VARIABLES:
        value = environ.get(variable, "")
        if len(value) >= SHORTEST:
            text = text.replace(value, HIDDEN)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text
