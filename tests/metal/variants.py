"""The variants that kernels are checked in: `python -m tests.metal.variants` runs a pairwise selection.

--mode checked|sanitized|cuda|metal    races and bounds, AddressSanitizer and UBSan, or a GPU
--full --shard 1/8                     the whole grid, in parts
--only decode                          variants whose name has this in it
--jobs 2                               in so many processes
--list                                 names, and nothing is run
--bounds                               how many there are, and the fewest there can be
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.metal.variants_cover import Classes, Space, Variant, fewest, pairwise, shard, whole_grid

_DTYPES = ("float32", "float16", "bfloat16")
_HEADS = {"dtype": _DTYPES, "head_dim": (64, 80, 96, 128, 256)}
_GROUPS = {"group": (1, 2, 3, 4, 5, 6, 7, 8, 16)}
_LOGITS = {"window": ("none", 20), "softcap": ("none", 3), "sinks": ("no", "yes")}
_TURNS = {"rotary": ("all", 32, 0), "norm": ("no", "yes")}
_PAGES = {"page_size": (16, 32)}
_BLOCKS = ("Q4_0", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
_AROUND = {
    "norm": ("no", "yes"),
    "bias": ("no", "yes"),
    "activation": ("none", "silu", "gelu"),
    "residual": ("no", "yes"),
    "cut": ("default", "other"),
    "columns": (7, 33),
}

_SHARED = (8, 4, 2, 1)
# At most so many rows, of a group's heads × new tokens, share a walk over the keys. Threadgroup memory and
# lanes are dealt by these and the head size; the group only says which head a row is.
_GROUP_MEETS: Classes = {"shared": dict.fromkeys(_SHARED, "any")}
# A format's own text, blocks.h, names none of these; the kernels around it have other code for each class.
_BLOCK_MEETS: Classes = {
    "dtype": {"float32": "32 bits", "float16": "16 bits", "bfloat16": "16 bits"},
    "rows": {1: "one", 3: "several", 8: "several"},
    "activation": {"none": "none", "silu": "gated", "gelu": "gated"},
}

SPACES = (
    Space(
        "decode_attention",
        {**_HEADS, **_GROUPS},
        {
            **_LOGITS,
            **_TURNS,
            **_PAGES,
            "tokens": (1, 3, 8),
            "shared": _SHARED,
            "cut": ("default", "other"),
        },
        {"group": _GROUP_MEETS},
    ),
    Space("prefill_attention", {**_HEADS, **_GROUPS}, {**_LOGITS, **_PAGES, "cut": ("default", "other")}),
    Space("page_write, page_gather, page_copy, unpack", {**_HEADS, **_GROUPS}, {**_TURNS, **_PAGES}),
    Space(
        "matvec, rms_norm, embed",
        {"dtype": _DTYPES, "rows": (1, 3, 8), "width": (64, 1048, 2056)},
        {**_AROUND, "out": ("same", "float32")},
    ),
    Space(
        "matvec_affine, embed",
        {"dtype": _DTYPES, "rows": (1, 3, 8), "bits": (4, 8), "affine_group": (32, 64, 128)},
        {**_AROUND, "packed_width": (128, 1152)},
    ),
    Space(
        "matvec_blocks, matmul_blocks, dequantize_blocks, embed",
        {"dtype": _DTYPES, "rows": (1, 3, 8), "block": _BLOCKS},
        {**_AROUND, "blocks": (1, 9)},
        {"block": _BLOCK_MEETS},
    ),
    Space(
        "matmul",
        {"dtype": _DTYPES[1:], "tall": (16, 32)},
        {
            "norm": ("no", "yes"),
            "residual": ("no", "yes"),
            "activation": ("none", "silu"),
            "to": ("y", "pages"),
        },
    ),
    Space("pick", {"vocab": (1003, 4096)}, {}),
)


def selection(*, full: bool, part: str = "1/1", only: str = "") -> list[Variant]:
    """The whole grid or the pairwise cover, or a part of it."""
    chosen = list(whole_grid(SPACES)) if full else pairwise(SPACES)
    return shard([variant for variant in chosen if only in str(variant)], part)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs variants, a line each; 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.metal.variants")
    parser.add_argument("--mode", choices=("checked", "sanitized", "cuda", "metal"), default="checked")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--shard", default="1/1")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--bounds", action="store_true")
    options = parser.parse_args(arguments)
    if options.bounds:
        print(*bounds(), sep="\n")
        return 0
    if options.jobs > 1 and not options.list:
        return run_jobs(options)
    variants = selection(full=options.full, part=options.shard, only=options.only)
    if options.list:
        print(*variants, sep="\n")
        return 0
    return run_all(variants, options.mode)


def bounds() -> Iterator[str]:
    """Lines: kernels, their variants in the selection, and the fewest in which all their pairs can be."""
    chosen = Counter(variant["kernel"] for variant in selection(full=False))
    for spaces, least in fewest(SPACES):
        kernels = [space.kernel for space in spaces]
        yield f"{sum(chosen[kernel] for kernel in kernels)}, at least {least}: {'; '.join(kernels)}"
    yield f"{chosen.total()}, at least {sum(least for _, least in fewest(SPACES))}: all"


def run_all(variants: Sequence[Variant], mode: str) -> int:
    """Runs them here."""
    from tests.metal.variants_run import open_executor, run  # needs MLX, which a list of names does not

    executor, failures, began = open_executor(mode), 0, time.perf_counter()
    for variant in variants:
        try:
            run(variant, executor)
        except Exception:  # noqa: BLE001 — one variant's failure is a line of the report
            failures += 1
            print(f"FAILED {variant}\n{traceback.format_exc()}", flush=True)
        else:
            print(f"ok {variant}", flush=True)
    seconds = time.perf_counter() - began
    print(f"{mode}: {len(variants)} variants, {failures} failed, {seconds:.0f} s", flush=True)
    return 1 if failures else 0


def run_jobs(options: argparse.Namespace) -> int:
    """Runs them in processes, each with a part of the part."""
    number, _, count = options.shard.partition("/")
    command = [sys.executable, "-m", "tests.metal.variants", "--mode", options.mode, "--only", options.only]
    jobs = [
        subprocess.Popen(
            [
                *command,
                *(["--full"] if options.full else []),
                *("--shard", f"{int(number) + job * int(count)}/{int(count) * options.jobs}"),
            ]
        )
        for job in range(options.jobs)
    ]
    return max([abs(job.wait()) for job in jobs])


if __name__ == "__main__":
    sys.exit(main())
