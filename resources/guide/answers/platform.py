"""What the guide says about machines, installing, updating and removing."""

from __future__ import annotations

from resources.guide.facts import Facts
from resources.guide.topic import Topic, topic


def topics(f: Facts) -> list[Topic]:
    """Topics about the machine MLXR runs on and about setting it up."""
    return [*_machines(), *_setting_up(f)]


def _machines() -> list[Topic]:
    return [
        topic(
            "mac",
            "which Macs and macOS versions work, Intel Macs",
            ("Apple silicon", "macOS 14"),
            "On a Mac, MLXR needs Apple silicon (M1 or later) and macOS 14 or later. Intel Macs do not work.",
        ),
        topic(
            "linux",
            "whether it works on Linux, Ubuntu, Debian",
            ("Linux", "CPU", "NVIDIA"),
            "Yes, MLXR runs in full on Linux: on the CPU, or on an NVIDIA GPU through MLX's CUDA build.",
        ),
        topic(
            "windows",
            "whether it works on Windows",
            ("Windows is not supported", "Linux"),
            "Windows is not supported: MLXR runs on Macs with Apple silicon and on Linux.",
        ),
        topic(
            "phone",
            "whether it works on iPhone, iPad, Android, in a browser",
            ("not on phones", "Macs"),
            "MLXR runs on Macs with Apple silicon and on Linux, not on phones, tablets or in a browser.",
        ),
        topic(
            "gpu",
            "whether the GPU is used, CUDA, Metal, which graphics cards",
            ("Metal", "CUDA"),
            "On a Mac the GPU is used through Metal, on Linux an NVIDIA GPU through CUDA; without one MLXR "
            "uses the "
            "CPU.",
        ),
        topic(
            "memory_needed",
            "how much RAM is needed, will a model fit",
            ("memory", r"mlxr doctor --model"),
            "A model needs about as much memory as its weight files, plus room for its chats; the Models "
            "page and `mlxr doctor --model FOLDER` tell whether it fits.",
        ),
        topic(
            "openblas",
            "what OpenBLAS is for, why it should be installed",
            ("OpenBLAS", "faster", "Linux"),
            "On a Linux CPU, OpenBLAS makes MLXR many times faster. On Debian or Ubuntu install "
            "libopenblas0-pthread.",
        ),
        topic(
            "dtype",
            "which number format or precision is computed in, fp16 or f32",
            ("32-bit", "CPU"),
            "On a CPU MLXR computes in 32-bit floats, which is fastest there; on a GPU it keeps the model's "
            "own "
            "16-bit format.",
        ),
    ]


def _setting_up(f: Facts) -> list[Topic]:
    return [
        topic(
            "install",
            "how to install or set up MLXR, how to start it the first time",
            "make run",
            "Get the source and run `make run` in its folder: it sets up everything it needs and starts "
            "MLXR.",
        ),
        topic(
            "dmg",
            "whether there is a ready-made .app, DMG, App Store or Homebrew package",
            ("not yet", "make run"),
            "Not yet: there is no ready-made app or DMG to download. Run `make run` in the source folder.",
        ),
        topic(
            "first_run",
            "what happens on the first launch, how to begin",
            ("first launch", "without a network"),
            "On first launch the window opens with me loaded, so you can chat at once without a network. "
            f"Then get a real model with {f.key('models')}.",
        ),
        topic(
            "python_version",
            "which Python is needed",
            f.pythons.replace(".", r"\."),
            f"MLXR needs Python {f.pythons}; `make setup` finds one or fetches it for you.",
        ),
        topic(
            "update",
            "how to update or upgrade MLXR",
            ("newest source", "make run"),
            "Pull the newest source and run `make run` again: it installs whatever changed. Your chats stay.",
        ),
        topic(
            "uninstall",
            "how to remove MLXR completely",
            ("delete", "data folder", r"Application Support/MLXR"),
            f"Delete the source folder and the data folder: {f.mac_home} on a Mac, {f.linux_home} on Linux.",
        ),
    ]
