"""What the guide says about the terminal."""

from __future__ import annotations

from resources.guide.facts import Facts
from resources.guide.topic import Topic, topic


def topics(f: Facts) -> list[Topic]:
    """Topics about the `mlxr` command."""
    names = f.commands
    listed = ", ".join(f"`mlxr {name}`" for name in names[:-1]) + f" and `mlxr {names[-1]}`"
    return [*_commands(listed, names), *_terminal(f)]


def _commands(listed: str, names: tuple[str, ...]) -> list[Topic]:
    return [
        topic(
            "commands",
            "which commands there are",
            tuple(f"mlxr {name}" for name in names),
            f"`mlxr` opens the window. The commands are {listed}; `mlxr --help` explains each.",
        ),
        topic(
            "cmd_chat",
            "how to chat in the terminal, without the window",
            "mlxr chat",
            "`mlxr chat` is the chat in the terminal: type a message and the answer streams below it.",
        ),
        topic(
            "cmd_generate",
            "how to get one completion from a script, what mlxr generate does",
            "mlxr generate",
            "`mlxr generate --prompt TEXT` writes one completion and ends, which suits scripts.",
        ),
        topic(
            "cmd_doctor",
            "how to check the machine or find what is wrong, what mlxr doctor does",
            "mlxr doctor",
            "`mlxr doctor` says in words what this machine has and what is wrong with it.",
        ),
        topic(
            "cmd_bench",
            "what mlxr bench does",
            "mlxr bench",
            "`mlxr bench` measures speed on this machine: reading prompts, and writing answers.",
        ),
        topic(
            "cmd_kernels",
            "what mlxr kernels does, which kernels run on this machine",
            "mlxr kernels",
            "`mlxr kernels` shows which kernels run on this machine and why; `--check` tests each one.",
        ),
        topic(
            "cmd_replay",
            "what mlxr replay does, how to play a file of requests",
            "mlxr replay",
            "`mlxr replay FILE` plays a file of requests on one engine, to measure or reproduce something.",
        ),
    ]


def _terminal(f: Facts) -> list[Topic]:
    return [
        topic(
            "help_flag",
            "how to get help for a command in the terminal",
            "--help",
            "Add `--help` to any command, such as `mlxr chat --help`, to see all of its options.",
        ),
        topic(
            "pipe",
            "how to pipe text or a file into MLXR",
            ("standard input", "mlxr chat"),
            "Pipe it in: `mlxr chat` reads standard input, gives one answer and ends.",
        ),
        topic(
            "json",
            "how to get JSON or machine-readable output",
            r"--json",
            "`mlxr generate --json` prints the answer, its tokens and its timing as JSON.",
        ),
        topic(
            "leave_terminal",
            "how to leave or stop an answer in the terminal chat",
            (r"Ctrl-C", r"Ctrl-D"),
            "In the terminal, Ctrl-C stops an answer and Ctrl-D leaves the chat.",
        ),
        topic(
            "server",
            "whether there is a server or API, OpenAI-compatible",
            ("not yet", "server"),
            "There is not yet a server: no API for other programs. In scripts use `mlxr generate`.",
        ),
        topic(
            "raw",
            "how to send a prompt without the chat template",
            r"--raw",
            "`mlxr generate --raw` sends your prompt as it is, without the chat template.",
        ),
    ]
