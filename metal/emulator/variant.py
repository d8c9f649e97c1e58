"""One compiled form of a kernel: its text with dtypes, template values and address spaces filled in."""

from collections.abc import Mapping
from dataclasses import dataclass

from metal.dialect import spell
from metal.source import KernelSource

CONSTANT_BELOW = 8  # MLX passes an input of fewer elements in Metal's `constant` address space

# By MLX's names. `long` has 64 bits in Metal and OpenCL; on the host the fixed-width names say so.
HOST_TYPES: Mapping[str, str] = {
    "float32": "float", "float16": "half", "bfloat16": "bfloat", "bool": "bool",
    "int8": "int8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint", "uint64": "uint64_t",
}  # fmt: skip
OPENCL_TYPES: Mapping[str, str] = {
    "float32": "float", "float16": "half", "bfloat16": "mlxr_bfloat", "bool": "bool",
    "int8": "char", "int16": "short", "int32": "int", "int64": "long",
    "uint8": "uchar", "uint16": "ushort", "uint32": "uint", "uint64": "ulong",
}  # fmt: skip

# As MLX: an argument of the kernel, so a helper cannot see it.
_POSITIONS = (
    "uint3 thread_position_in_grid, uint3 thread_position_in_threadgroup, "
    "uint3 threadgroup_position_in_grid, uint3 threads_per_threadgroup, uint3 threadgroups_per_grid, "
    "uint thread_index_in_threadgroup, "
    "uint thread_index_in_simdgroup, uint simdgroup_index_in_threadgroup, uint simdgroups_per_threadgroup"
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One array of a kernel, as its signature shows it."""

    name: str
    dtype: str  # MLX's name, "float16"
    is_output: bool = False
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel, the arrays it takes and its template values: an int, a bool, or the name of a dtype."""

    source: KernelSource
    parameters: tuple[Parameter, ...]
    template: tuple[tuple[str, int | bool | str], ...]

    def host_text(self) -> str:
        """C++ for the emulator: the body as a function, and the entry that casts the launch's pointers."""
        arguments = spell(", ".join(self._declare(p, HOST_TYPES) for p in self.parameters), "host")
        passed = ", ".join(
            f"static_cast<{'' if p.is_output else 'const '}{HOST_TYPES[p.dtype]}*>(buffers[{i}])"
            for i, p in enumerate(self.parameters)
        )
        source = self.source
        return (
            f'#include "host.h"\n{source.defines}namespace kernel {{\n'
            f'#line 1 "{source.name}.metal"\n{spell(source.helpers, "host")}\n'
            f"__attribute__((noinline)) static void body({arguments}) {{\n{self._values(HOST_TYPES)}"
            f'#line {source.body_line} "{source.name}.metal"\n{source.body_for("host")}\n}}\n}}\n'
            f'#line 1 "entry"\n'
            f'extern "C" void mlxr_kernel(void* const* buffers) {{ kernel::body({passed}); }}\n'
        )

    def opencl_text(self) -> str:
        """OpenCL C++ for clang, whose address spaces are Metal's."""
        arguments = ", ".join(self._declare(p, OPENCL_TYPES) for p in self.parameters)
        source = self.source
        return (
            f"{source.header('opencl')}"
            f"__kernel void {source.name}({arguments}, {_POSITIONS}) {{\n{self._values(OPENCL_TYPES)}"
            f'#line {source.body_line} "{source.name}.metal"\n{source.body_for("opencl")}\n}}\n'
        )

    @staticmethod
    def _declare(parameter: Parameter, types: Mapping[str, str]) -> str:
        const = "" if parameter.is_output else "const "
        space = "constant" if parameter.is_constant else "device"
        return f"{const}{space} {types[parameter.dtype]}* {parameter.name}"

    def _values(self, types: Mapping[str, str]) -> str:
        lines: list[str] = []
        for name, value in self.template:
            if isinstance(value, str):
                lines.append(f"using {name} = {types[value]};\n")
            elif isinstance(value, bool):
                lines.append(f"constexpr bool {name} = {str(value).lower()};\n")
            else:
                lines.append(f"constexpr int {name} = {value};\n")
        return "".join(lines)
