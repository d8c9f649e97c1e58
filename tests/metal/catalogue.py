"""The bodies of `bodies/` and their arrays, for the tests that only compile them."""

from collections.abc import Mapping
from pathlib import Path

BODIES = Path(__file__).parent / "bodies"

# dtypes by MLX's names, T for the template's, `>` before an output's.
BODY_ARRAYS: Mapping[str, Mapping[str, str]] = {
    "lanes": {"x": "float32", "y": ">float32"},
    "mathematics": {"x": "float32", "y": ">float32"},
    "places": {"unused": "float32", "y": ">uint32"},
    "vectors": {"x": "T", "words": "uint32", "y": ">T", "z": ">T", "sums": ">uint32", "bits": ">float32"},
    "matrices": {"a": "T", "b": "T", "c": "T", "d": ">float32"},
    "looks_inside": {
        **{"a": "T", "b": "T", "v": "T", "weights": "T"},
        **{
            "y": ">float32",
            "where": ">float32",
            "totals": ">float32",
            "weighed": ">float32",
            "any": ">int32",
        },
    },
    "conversions": {
        **{"wide": "float32", "stored": "T", "pairs": "uint16"},
        **{"narrow": ">T", "widened": ">float32", "halved": ">float32", "low": ">uint32"},
    },
    "some": {"pool": "T", "y": ">T"},
    "script": {"steps": "int32", "barriers": "int32", "pool": "float32", "y": ">float32"},
}


def body_arrays(name: str, dtype: str) -> dict[str, str]:
    """The arrays of a body with `dtype` for T."""
    return {key: value.replace("T", dtype) for key, value in BODY_ARRAYS[name].items()}


def body_template(name: str, dtype: str) -> dict[str, int | str]:
    """The template values that a body names."""
    return {"T": dtype, **({"STEPS": 4} if name == "script" else {})}
