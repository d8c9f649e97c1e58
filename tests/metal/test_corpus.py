"""Bodies that must fail: each is refused by the check that is there for it, with the lines it is about."""

import re
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest

from metal.emulator import Mode, Parameter, Variant
from metal.emulator.address_spaces import check_address_spaces, find_clang
from metal.errors import KernelBuildError, KernelRefused
from metal.source import load_source

CORPUS = Path(__file__).parent / "corpus"
THREADS = 64


def races(array: str, body: str, line: int, other: int) -> str:
    """Matches a race between two lines, whichever came first."""
    order = "|".join(
        rf"at {body}\.metal:{a}, .* at {body}\.metal:{b}," for a, b in {(line, other), (other, line)}
    )
    return rf"race on '{array}' element \d+: thread \d+ .*({order})"


# What each body does wrong, in the words of the refusal; the lines are those of the body's file.
CHECKED = {
    "race": races("shared", "race", 5, 5),
    "missing_barrier": races("shared", "missing_barrier", 7, 8),
    "write_after_read": races("shared", "write_after_read", 7, 8),
    "simdgroup_barrier_only": races("shared", "simdgroup_barrier_only", 7, 9),
    "wrong_memory": races("y", "wrong_memory", 4, 6),
    "communicates": r"race on 'y' .* of threadgroup [01] wrote it .* of threadgroup [01] writes it",
    "divergent_barrier": r"divergent barrier: thread 0 waits .*:5, but thread 32 waits .*:7",
    "early_return": r"divergent barrier: thread 0 waits .* early_return.metal:5, but thread 3 has ended",
    "divergent_simdgroup": r"divergent simdgroup operation: thread 0 waits in simd_sum at .*:5, but "
    "thread 16 has ended",
    "mixed_wait": r"divergent barrier: thread 0 waits in simd_sum at .*:5, but thread 16 waits in "
    r"threadgroup_barrier at .*:6",
    "shuffle_out_of_range": r"shuffle_out_of_range.metal:4: simd_shuffle reads lane 32 of 32",
    "overrun": r"overrun.metal:4: thread 63 reads 4 bytes past the end of 'x' \(256 bytes, at byte 256\)",
    "overrun_write": r"overrun_write.metal:4: thread 63 writes 4 bytes past the end of 'y'",
    "threadgroup_overrun": r"threadgroup_overrun.metal:8: thread 63 reads 4 bytes past the end of 'shared'",
    "unwritten": r"unwritten.metal:7: thread 63 reads 'shared' at byte 252, which no thread has written",
    "writes_input": r"writes_input.metal:4: thread \d+ writes the input 'x', which the launcher does not",
    "misaligned": r"misaligned.metal:4: a vector access is not aligned to 16 bytes",
    "misaligned_matrix": r"misaligned_matrix.metal:5: a vector access is not aligned to 8 bytes",
    "misaligned_wide_matrix": r"misaligned_wide_matrix.metal:5: a vector access is not aligned to 16 bytes",
    "odd_wide_matrix": r"odd_wide_matrix.metal:5: a wide matrix with a stride of 34, no whole 16 bytes",
    "odd_right_matrix": r"odd_right_matrix.metal:5: a right matrix with a stride of 34, no whole 16 bytes",
    "odd_matrix": r"odd_matrix.metal:5: matrix_load with an odd stride, 7",
    "too_much_memory": r"too_much_memory.metal:5: threadgroup memory: 40000 bytes with 'second', 32768 at",
}
SANITIZED = {
    "overrun": r"heap-buffer-overflow(.|\n)*overrun.metal:4",
    "overrun_write": r"heap-buffer-overflow(.|\n)*overrun_write.metal:4",
    "threadgroup_overrun": r"use-after-poison(.|\n)*threadgroup_overrun.metal:8",
    "signed_overflow": r"runtime error: signed integer overflow(.|\n)*signed_overflow.metal:5",
    "divergent_barrier": r"divergent barrier",
}
PLAIN_BUILD = {
    "half_arithmetic": r"half_arithmetic.metal:4:.* no match for .operator\+.",
    "implicit_double": r"implicit_double.metal:4:.*double",
    "one_array_too_large": r"threadgroup array shared is over 32 KB",
}
CLANG = {
    "mixed_spaces": r"mixed_spaces.metal:5:.*cannot initialize.*__local",
    "no_space": r"no_space.metal:4:.*cannot initialize",
    "constant_as_device": r"constant_as_device.metal:5:.*no matching function",
    "explicit_double": r"explicit_double.metal:4:.*double",
    "local_static": r"local_static.metal:4:.*static",
    "recursion": r"factorial\(int\) calls itself",
    "mutual_recursion": r"calls itself",
    "position_in_helper": r"position_in_helper.metal:2:.*undeclared",
    "address_space_array_in_helper": r"address_space_array_in_helper.metal:3:.*",
}
RunBody = Callable[..., object]


def ramp() -> mx.array:
    return mx.arange(THREADS).astype(mx.float32)


@pytest.mark.parametrize("name", CHECKED)
def test_the_checked_build_refuses(name: str, run_body: RunBody) -> None:
    with pytest.raises(KernelRefused, match=CHECKED[name]):
        run_body(name, Mode.CHECKED, ramp(), threadgroups=2 if name == "communicates" else 1)


@pytest.mark.parametrize("name", SANITIZED)
def test_the_sanitizers_refuse(name: str, run_body: RunBody) -> None:
    with pytest.raises(KernelRefused, match=SANITIZED[name]):
        run_body(name, Mode.SANITIZED, ramp())


@pytest.mark.parametrize("name", PLAIN_BUILD)
def test_the_compiler_refuses(name: str, run_body: RunBody) -> None:
    with pytest.raises(KernelBuildError, match=re.compile(PLAIN_BUILD[name])):
        run_body(name, Mode.PLAIN, ramp())


@pytest.mark.skipif(find_clang() is None, reason="needs clang: apt install clang-14")
@pytest.mark.parametrize("name", CLANG)
def test_clang_refuses(name: str) -> None:
    with pytest.raises(KernelBuildError, match=CLANG[name]):
        check_address_spaces(variant_of(name))


def variant_of(name: str) -> Variant:
    parameters = (
        Parameter("x", "float32"),
        Parameter("h", "float16"),
        Parameter("small", "float32", is_constant=True),
        Parameter("y", "float32", is_output=True),
    )
    return Variant(load_source(name, folder=CORPUS), parameters, ())


def test_every_body_of_the_corpus_has_a_check_that_refuses_it() -> None:
    named = CHECKED.keys() | SANITIZED.keys() | PLAIN_BUILD.keys() | CLANG.keys()
    assert {path.stem for path in CORPUS.glob("*.metal")} == named
