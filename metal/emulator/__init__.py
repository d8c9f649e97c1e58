"""The host emulator: compiles a kernel for this machine's processor and runs it thread by thread."""

from collections.abc import Sequence
from pathlib import Path

from metal.emulator.build import Builder, Mode
from metal.emulator.launch import Geometry, HostArray, LaunchReport, Library, Traffic
from metal.emulator.sanitized import Program
from metal.emulator.variant import CONSTANT_BELOW, Parameter, Variant

__all__ = [
    "CONSTANT_BELOW",
    "Emulator",
    "Geometry",
    "HostArray",
    "LaunchReport",
    "Mode",
    "Parameter",
    "Traffic",
    "Variant",
]


class Emulator:
    """Builds variants into `cache_folder` and launches them, in one mode, in an order drawn from `seed`."""

    def __init__(self, cache_folder: Path, mode: Mode = Mode.PLAIN, seed: int = 0) -> None:
        self._builder = Builder(cache_folder)
        self._mode = mode
        self._seed = seed
        self._built: dict[Variant, Library | Program] = {}

    def launch(self, variant: Variant, arrays: Sequence[HostArray], geometry: Geometry) -> LaunchReport:
        """Runs `variant` on `arrays` (in the order of its parameters), in place.

        Raises:
            KernelBuildError: the compiler refused the text.
            KernelRefused: the launch did something that the dialect or a check forbids.
        """
        return self._load(variant).launch(arrays, geometry, self._seed)

    def _load(self, variant: Variant) -> Library | Program:
        built = self._built.get(variant)
        if built is None:
            path = self._builder.build(variant, self._mode)
            sanitized = self._mode is Mode.SANITIZED
            built = Program(path) if sanitized else Library(path, counts=self._mode is Mode.CHECKED)
            self._built[variant] = built
        return built
