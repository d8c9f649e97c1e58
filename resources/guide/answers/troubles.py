"""What the guide says about errors and what to do."""

from __future__ import annotations

from resources.guide.facts import Facts
from resources.guide.topic import Topic, topic


def topics(f: Facts) -> list[Topic]:
    """Topics about things that go wrong."""
    return [*_models(f), *_prompts(f), *_machine(f)]


def _models(f: Facts) -> list[Topic]:
    families = f.families_text
    return [
        topic(
            "missing_shard",
            "error: a shard or weight file is missing",
            ("missing", "download", "again"),
            "A shard is one of a model's weight files. If one is missing, download the model again and open "
            "it.",
        ),
        topic(
            "truncated_file",
            "error: a file is broken, truncated, too short or corrupt",
            ("cut short", "again"),
            "The file was cut short, most likely while downloading: get it again.",
        ),
        topic(
            "unknown_architecture",
            "error: unknown or unsupported architecture or model type",
            f.families,
            f"That model is of a family MLXR does not know. It runs {families} models: choose one of those.",
        ),
        topic(
            "bad_config",
            "error: config.json is missing or a field is wrong",
            (r"config\.json", "again"),
            "Every model folder needs a sound config.json: get that file again from where the model came "
            "from.",
        ),
        topic(
            "tokenizer_mismatch",
            "error: tokenizer missing or not matching the vocabulary",
            ("tokenizer", "same model"),
            "The tokenizer files must come from the same model as the weights: download the whole folder "
            "again.",
        ),
        topic(
            "template_fails",
            "error: the chat template fails or raises",
            ("template", r"--raw"),
            "The model's chat template failed. Get the model's newest files, or use `mlxr generate --raw`, "
            "which "
            "skips the template.",
        ),
        topic(
            "no_template",
            "error: the model has no chat template, base models",
            ("no chat template", "instruct"),
            "A base model has no chat template: for chatting choose one whose name ends in instruct or chat.",
        ),
        topic(
            "nan",
            "error: logits not finite, NaN",
            ("damaged", "another"),
            "Logits that are not finite mean damaged weights or a broken quantisation: try another copy of "
            "the "
            "model.",
        ),
    ]


def _prompts(f: Facts) -> list[Topic]:
    new_chat = f.shortcuts["new_chat"].replace("+", r"\+")
    return [
        topic(
            "prompt_too_long",
            "error: prompt too long",
            ("shorten", new_chat),
            f"The prompt does not fit the model's context: shorten it, or start a new chat with "
            f"{f.key('new_chat')}.",
        ),
        topic(
            "repeats",
            "the model repeats itself or writes nonsense",
            ("penalty", "instruct"),
            "Raise the repetition penalty or the temperature a little, and use a model made for chat "
            "(instruct).",
        ),
        topic(
            "model_wrong",
            "a model's answers are wrong, made up or out of date, it takes itself for another one",
            ("learnt", "check"),
            "A model only knows texts it learnt from, up to some date, and makes things up: check what "
            "matters.",
        ),
        topic(
            "cut_off",
            "the answer ends in the middle",
            ("max-tokens", "context"),
            "An answer ends early when it reaches --max-tokens or when the context is full: raise the one "
            "or start "
            "a new chat.",
        ),
    ]


def _machine(f: Facts) -> list[Topic]:
    return [
        topic(
            "out_of_memory",
            "out of memory, the model is too big, the machine swaps",
            ("smaller", "4-bit"),
            "The model is too big for this machine: choose a smaller one or a 4-bit version, and close "
            "other apps.",
        ),
        topic(
            "read_only",
            "the data folder is read-only or the disk is full",
            ("in memory", f.home_variable),
            f"Then MLXR keeps this chat in memory only, and says so. Free some space, or set "
            f"{f.home_variable} to a "
            "folder you can write to.",
        ),
        topic(
            "no_display",
            "error: no display, over ssh, on a server",
            ("no display", "mlxr chat"),
            "With no display MLXR cannot open a window: it says so and starts `mlxr chat` in the terminal.",
        ),
        topic(
            "crash",
            "it crashed, hangs, freezes, does not start or does not work",
            ("mlxr doctor", r"mlxr\.log"),
            f"Run `mlxr doctor`: it says what is wrong. More is in the log, {f.log_file} in the data folder.",
        ),
        topic(
            "compiler",
            "error: no C++ compiler, make or git is missing",
            (r"xcode-select --install", "compiler"),
            "MLXR needs a C++ compiler: on a Mac run `xcode-select --install`, on Linux install g++.",
        ),
        topic(
            "energy",
            "why the fan is loud, the machine gets hot, the battery drains",
            ("normal", "smaller"),
            "That is normal while a model reads or writes: it keeps the chip busy. A smaller model needs "
            "less power.",
        ),
        topic(
            "model_missing",
            "the model is not found, its folder moved",
            ("open", "folder"),
            f"MLXR did not find that model's folder: it was moved or deleted. Use {f.key('open_model')} to "
            f"open it "
            "where it is now.",
        ),
    ]
