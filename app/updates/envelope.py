"""Signatures of the list of releases: Ed25519 (RFC 8032), by libsodium, over exactly the bytes that are sent.

The file is a JSON object: `payload`, the list in base64, and `signatures`, a list of objects with `key` (the
first eight bytes of the SHA-256 of the public key, in hexadecimal) and `signature` (in base64).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from typing import Any, cast

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from app.updates.errors import Refused

PREFIX = b"MLXR releases 1\n"
"""Stands before what is signed, so that a signature made for something else is none here."""
MOST_SIGNATURES = 8

NOT_ONE = "what the server sent is no list of releases; try again later"
NOT_SIGNED = "the list of releases is not signed by a key that this MLXR knows, so it is not taken"


def key_id(public_key: bytes) -> str:
    """What a key is called in a file: 16 hexadecimal digits."""
    return hashlib.sha256(public_key).hexdigest()[:16]


def sealed(payload: bytes, keys: Sequence[SigningKey]) -> bytes:
    """The file that holds `payload`, with a signature of each key."""
    signatures = [
        {
            "key": key_id(bytes(key.verify_key)),
            "signature": base64.b64encode(key.sign(PREFIX + payload).signature).decode(),
        }
        for key in keys
    ]
    content = {"payload": base64.b64encode(payload).decode(), "signatures": signatures}
    return json.dumps(content, indent=1).encode() + b"\n"


def opened(data: bytes, public_keys: Sequence[str]) -> bytes:
    """The payload, once one of the keys (64 hexadecimal digits each) is found to have signed it.

    Raises Refused for a file of another form, and where no known key signed it.
    """
    content = _json(data)
    if not isinstance(content, dict):
        raise Refused(NOT_ONE)
    fields = cast(dict[str, Any], content)
    payload, signatures = _bytes(fields.get("payload")), fields.get("signatures")
    if not isinstance(signatures, list):
        raise Refused(NOT_ONE)
    known = {key_id(bytes.fromhex(key)): VerifyKey(bytes.fromhex(key)) for key in public_keys}
    for entry in cast(list[Any], signatures)[:MOST_SIGNATURES]:
        if not isinstance(entry, dict):
            raise Refused(NOT_ONE)
        one = cast(dict[str, Any], entry)
        key = known.get(str(one.get("key")))
        if key is not None and _holds(key, payload, _bytes(one.get("signature"))):
            return payload
    raise Refused(NOT_SIGNED)


def _holds(key: VerifyKey, payload: bytes, signature: bytes) -> bool:
    try:
        key.verify(PREFIX + payload, signature)
    except (BadSignatureError, ValueError):  # the second: it is not 64 bytes
        return False
    return True


def _json(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise Refused(NOT_ONE) from None


def _bytes(value: object) -> bytes:
    if not isinstance(value, str):
        raise Refused(NOT_ONE)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Refused(NOT_ONE) from None
