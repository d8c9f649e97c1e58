"""The list of releases as data: it comes back as it was written, and nothing else is taken for one."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from nacl.signing import SigningKey

from app.updates.envelope import PREFIX, key_id, opened, sealed
from app.updates.errors import Refused
from app.updates.manifest import MOST_ENTRIES, MOST_TEXT, decoded, encoded, version_numbers
from tests.app.updates.conftest import MANIFEST, public


def changed(*path: str | int, to: Any) -> bytes:
    """MANIFEST's JSON with one value replaced."""
    content = json.loads(encoded(MANIFEST))
    place = content
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return json.dumps(content).encode()


def test_it_comes_back_as_it_was_written() -> None:
    assert decoded(encoded(MANIFEST)) == MANIFEST


def test_what_a_later_version_adds_is_left_alone() -> None:
    assert decoded(changed("mirror", to={"of": 1})) == MANIFEST
    assert decoded(changed("artefacts", 0, "delta", to=[])) == MANIFEST


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), True),
        (("format",), "1"),
        (("format",), 0),
        (("date",), "yesterday"),
        (("date",), 1763805000),
        (("date",), None),
        (("version",), "0.2"),
        (("version",), "v0.2.0"),
        (("version",), "0.2.0-beta"),
        (("version",), "0.2.0\n"),
        (("version",), "٠.٢.٠"),
        (("version",), 2),
        (("notes",), {}),
        (("notes",), [3]),
        (("notes",), [{}] * (MOST_ENTRIES + 1)),
        (("notes", 0, "text"), None),
        (("notes", 0, "text"), "x" * (MOST_TEXT + 1)),
        (("notes", 0, "day"), "22.11.2026"),
        (("artefacts",), None),
        (("artefacts", 0), "MLXR.dmg"),
        (("artefacts", 0, "file"), "../MLXR.dmg"),
        (("artefacts", 0, "file"), ""),
        (("artefacts", 0, "size"), "100"),
        (("artefacts", 0, "size"), 1.5),
        (("artefacts", 0, "size"), True),
        (("artefacts", 0, "size"), -1),
        (("artefacts", 0, "sha256"), "A" * 64),
        (("artefacts", 0, "sha256"), "a" * 63),
        (("artefacts", 0, "system"), "Windows 95"),
        (("artefacts", 0, "minimum_macos"), 14),
        (("artefacts", 0, "minimum_macos"), "fourteen"),
    ],
)
def test_wrong_values_are_refused_in_one_line(path: tuple[str | int, ...], value: Any) -> None:
    with pytest.raises(Refused) as caught:
        decoded(changed(*path, to=value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("payload", [b"", b"[]", b"null", b"\xff", b"[" * 100_000, b"{}"])
def test_what_is_no_list_is_refused(payload: bytes) -> None:
    with pytest.raises(Refused):
        decoded(payload)


def test_a_form_that_is_newer_says_so() -> None:
    with pytest.raises(Refused, match="made for a newer MLXR"):
        decoded(changed("format", to=2))


def test_versions_are_compared_as_numbers() -> None:
    assert version_numbers("0.10.0") > version_numbers("0.9.9")
    assert MANIFEST.is_newer_than("0.1.9")
    assert not MANIFEST.is_newer_than("0.2.0")
    assert [one.version for one in MANIFEST.notes_since("0.1.0")] == ["0.2.0"]


def test_a_signature_holds_for_exactly_what_was_signed(key: SigningKey) -> None:
    file = sealed(b"payload", [key])
    assert opened(file, [public(key)]) == b"payload"
    content = json.loads(file)
    for other in (b"Payload", b"payload ", b""):
        content["payload"] = base64.b64encode(other).decode()
        with pytest.raises(Refused, match="not signed"):
            opened(json.dumps(content).encode(), [public(key)])


def test_a_signature_of_the_bare_words_is_none(key: SigningKey) -> None:
    content = json.loads(sealed(b"payload", [key]))
    content["signatures"][0]["signature"] = base64.b64encode(key.sign(b"payload").signature).decode()
    with pytest.raises(Refused, match="not signed"):
        opened(json.dumps(content).encode(), [public(key)])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("payload", 3),
        ("payload", "no base64!"),
        ("signatures", None),
        ("signatures", ["x"]),
        ("signatures", [{"signature": 3}]),
    ],
)
def test_an_envelope_of_another_form_is_refused(key: SigningKey, field: str, value: Any) -> None:
    content = json.loads(sealed(b"payload", [key])) | {field: value}
    with pytest.raises(Refused):
        opened(json.dumps(content).encode(), [public(key)])


@pytest.mark.parametrize(
    "signature", ["", base64.b64encode(bytes(64)).decode(), base64.b64encode(b"1").decode()]
)
def test_a_signature_that_is_none_is_refused(key: SigningKey, signature: str) -> None:
    content = json.loads(sealed(b"payload", [key]))
    content["signatures"] = [{"key": key_id(bytes(key.verify_key)), "signature": signature}] * 3
    with pytest.raises(Refused, match="not signed"):
        opened(json.dumps(content).encode(), [public(key)])


def test_another_library_finds_the_same_signature(key: SigningKey) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    content = json.loads(sealed(b"payload", [key]))
    theirs = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(key))
    assert base64.b64decode(content["signatures"][0]["signature"]) == theirs.sign(PREFIX + b"payload")
