"""`mlxr generate` from outside: the contract's JSON, exact output, and one clear line for every mistake."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path

import pytest
import sentencepiece

from tests.app.cli.conftest import (
    NO_END,
    Run,
    StartTerminal,
    assert_ends_quietly,
    command,
)
from tests.fakes.random_model import VOCAB, write_random_model


def test_json_has_exactly_the_contracts_fields(mlxr_here: Run, random_model: Path) -> None:
    done = mlxr_here(
        "generate", "--model", random_model, "--tokens", "1,5,9", "--max-tokens", 4, *NO_END, "--json"
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert set(result) == {
        "prompt_tokens",
        "tokens",
        "text",
        "finish_reason",
        "logprobs",
        "timing",
        "executor",
        "executor_reason",
        "kernel_notes",
        "launches",
        "kernels",
    }
    assert set(result["timing"]) == {
        "ttft_ms",
        "prefill_tokens",
        "cached_tokens",
        "prefill_tps",
        "decode_tps",
    }
    assert result["prompt_tokens"] == [1, 5, 9]
    assert len(result["tokens"]) == 4
    assert result["finish_reason"] == "length"
    assert result["logprobs"] is None
    assert result["executor"] == "reference"
    assert result["executor_reason"]
    assert result["kernel_notes"] == []


def test_json_counts_what_decode_steps_launched(mlxr_here: Run, random_model: Path) -> None:
    def launches(count: int) -> dict[str, int]:
        options = ("--tokens", "1,5,9", "--max-tokens", count, *NO_END, "--json")
        result = json.loads(mlxr_here("generate", "--model", random_model, *options).stdout)
        ours = sum(n for name, n in result["launches"].items() if not name.startswith(("mlx.", "host.")))
        assert result["kernels"] == (ours / sum(result["launches"].values()) if result["launches"] else None)
        return result["launches"]

    few, many = launches(3), launches(5)
    assert {name: 2 * count for name, count in few.items()} == many  # the first token is the prefill's
    assert few


def test_log_probabilities_come_with_the_likeliest_tokens(mlxr_here: Run, random_model: Path) -> None:
    options = ("--tokens", "1,5,9", "--max-tokens", 3, "--json", "--logprobs", VOCAB)
    result = json.loads(
        mlxr_here("generate", "--model", random_model, *options, "--logit-bias", "7=100").stdout
    )
    assert result["tokens"] == [7, 7, 7]
    assert [entry["id"] for entry in result["logprobs"]] == [7, 7, 7]
    for entry in result["logprobs"]:
        top = [token["logprob"] for token in entry["top"]]
        assert top == sorted(top, reverse=True)
        assert sum(map(math.exp, top)) == pytest.approx(1, abs=1e-4)
        assert {"id": 7, "logprob": pytest.approx(entry["logprob"])} in entry["top"]


def test_a_pipe_gets_exactly_the_text(mlxr_here: Run, random_model: Path) -> None:
    options = ("--model", random_model, "--prompt", "a page", "--max-tokens", 20, *NO_END)
    text = json.loads(mlxr_here("generate", *options, "--json").stdout)["text"]
    plain = mlxr_here("generate", *options)
    assert text
    assert plain.stdout == text
    assert plain.stderr == ""


@pytest.mark.parametrize(
    ("options", "rendered"),
    [((), "<user> a page\n<assistant> "), (("--raw",), "a page")],
    ids=["template", "raw"],
)
def test_prompts_go_through_the_template_unless_raw(
    mlxr: Run, random_model: Path, options: tuple[str, ...], rendered: str
) -> None:
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(random_model / "tokenizer.model"))
    done = mlxr(
        "generate", "--model", random_model, "--prompt", "a page", "--max-tokens", 1, "--json", *options
    )
    begin, *rest = json.loads(done.stdout)["prompt_tokens"]
    assert begin == pieces.bos_id()
    assert pieces.decode(rest) == pieces.decode(pieces.encode(rendered))


def test_a_model_without_template_gets_the_prompt_as_it_is(mlxr: Run, tmp_path: Path) -> None:
    model = write_random_model(tmp_path / "base-model")
    settings = json.loads((model / "tokenizer_config.json").read_text())
    del settings["chat_template"]
    (model / "tokenizer_config.json").write_text(json.dumps(settings))
    options = ("--model", model, "--prompt", "a page", "--max-tokens", 1, "--json")
    plain, raw = mlxr("generate", *options), mlxr("generate", *options, "--raw")
    assert "base-model has no chat template" in plain.stderr
    assert len(plain.stderr.splitlines()) == 1
    assert raw.stderr == ""
    assert json.loads(plain.stdout)["prompt_tokens"] == json.loads(raw.stdout)["prompt_tokens"]


def test_prompts_come_from_files_and_standard_input(mlxr: Run, random_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("a page holds\nsixteen tokens\n")
    options = ("--model", random_model, "--raw", "--max-tokens", 1, "--json")
    from_argument = json.loads(mlxr("generate", *options, "--prompt", file.read_text()).stdout)
    from_file = json.loads(mlxr("generate", *options, "--prompt-file", file).stdout)
    from_input = json.loads(mlxr("generate", *options, "--prompt-file", "-", stdin=file.read_text()).stdout)
    assert from_argument["prompt_tokens"] == from_file["prompt_tokens"] == from_input["prompt_tokens"]


def test_the_same_seed_gives_the_same_text(mlxr_here: Run, random_model: Path) -> None:
    options = ("--model", random_model, "--tokens", "1,5", "--max-tokens", 24, "--temperature", 1.5, *NO_END)
    texts = [mlxr_here("generate", *options, "--seed", seed).stdout for seed in (3, 3, 4)]
    assert texts[0] == texts[1] != texts[2]


def test_stop_strings_end_the_text(mlxr_here: Run, random_model: Path) -> None:
    options = ("--model", random_model, "--tokens", "1,5,9", "--max-tokens", 30, *NO_END, "--json")
    whole = json.loads(mlxr_here("generate", *options).stdout)["text"]
    middle = whole[len(whole) // 2 : len(whole) // 2 + 2]
    stopped = json.loads(mlxr_here("generate", *options, "--stop", middle, "--stop", "never in it").stdout)
    assert stopped["text"] == whole[: whole.index(middle)]
    assert stopped["finish_reason"] == "stop"


def test_end_tokens_can_be_ignored(mlxr_here: Run, random_model: Path) -> None:
    options = (
        "--model",
        random_model,
        "--tokens",
        "1,5",
        "--max-tokens",
        5,
        "--logit-bias",
        "2=100",
        "--json",
    )
    ended = json.loads(mlxr_here("generate", *options).stdout)
    assert (ended["tokens"], ended["finish_reason"]) == ([2], "stop")
    ignored = json.loads(mlxr_here("generate", *options, "--ignore-eos").stdout)
    assert (ignored["tokens"], ignored["finish_reason"]) == ([2] * 5, "length")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--tokens", "1,x"), "--tokens"),
        (("--tokens", "1,-2"), "--tokens"),
        (("--tokens", ""), "--tokens"),
        (("--prompt", "a", "--tokens", "1"), "--prompt"),
        ((), "--prompt"),
        (("--prompt", "a", "--max-tokens", "0"), "--max-tokens"),
        (("--prompt", "a", "--temperature", "-1"), "--temperature is -1"),
        (("--prompt", "a", "--temperature", "nan"), "--temperature is nan"),
        (("--prompt", "a", "--top-p", "1.5"), "--top-p is 1.5"),
        (("--prompt", "a", "--repetition-penalty", "0"), "--repetition-penalty is 0"),
        (("--prompt", "a", "--logit-bias", "7"), "--logit-bias"),
        (("--prompt", "a", "--logprobs", "3"), "--logprobs needs --json"),
        (("--prompt", "a", "--stop", ""), "--stop is empty"),
        (("--prompt", "a", "--max", "3"), "--max"),
        (("--prompt", b"\xff"), "--prompt is not UTF-8"),
        (("--prompt", "a", "--stop", "b", "--stop", b"h\xf6"), "--stop is not UTF-8"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    mlxr_here: Run, options: tuple[str | bytes, ...], says: str
) -> None:
    done = mlxr_here("generate", *options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--tokens", "1,99999"), "99999"),
        (("--prompt-file", "/nowhere/prompt.txt"), "/nowhere/prompt.txt cannot be read"),
        (("--prompt-file", "/"), "/ cannot be read"),
        (("--prompt", "a", "--model", "/nowhere"), "/nowhere"),
        (("--prompt", "a", "--model", "weights.gguf"), "weights.gguf: no such file"),
        (("--prompt", "a", "--logit-bias", "99999=1"), "99999"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_1(
    mlxr_here: Run, random_model: Path, options: tuple[str, ...], says: str
) -> None:
    done = mlxr_here("generate", "--model", random_model, *options)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_input_that_is_not_text_is_refused(mlxr: Run, random_model: Path) -> None:
    done = mlxr("generate", "--model", random_model, "--prompt-file", "-", stdin=b"ab\xff\xfe")
    assert done.returncode == 1
    assert done.stderr == "error: standard input is not UTF-8 text (line 1, byte 2); convert it first\n"


def test_a_reader_that_goes_away_ends_it_quietly(random_model: Path) -> None:
    arguments = command("generate", "--model", random_model, "--tokens", "1,5", *NO_END)
    assert_ends_quietly(arguments)


def test_ctrl_c_keeps_what_was_written(terminal: StartTerminal, random_model: Path) -> None:
    screen = terminal(
        "generate", "--model", random_model, "--prompt", "a page", *NO_END, env={"TERM": "dumb"}
    )
    screen.wait_for("a")
    screen.type("\x03")
    assert screen.end() == 130
    assert "Traceback" not in screen.screen


def test_sigterm_ends_it_as_its_own_end_would(terminal: StartTerminal, random_model: Path) -> None:
    screen = terminal(
        "generate", "--model", random_model, "--prompt", "a page", *NO_END, env={"TERM": "dumb"}
    )
    screen.wait_for("a")
    screen.process.send_signal(signal.SIGTERM)
    assert screen.end() == 143, "killed it would be -15"
    assert "Traceback" not in screen.screen


def test_a_terminal_is_not_driven_by_the_model(terminal: StartTerminal, random_model: Path) -> None:
    # Byte pieces follow the three control tokens: 3 + 0x1B is the escape character.
    options = ("--tokens", "1,5", "--max-tokens", 6, "--logit-bias", f"{3 + 0x1B}=1000")
    screen = terminal("generate", "--model", random_model, *options, env={"TERM": "dumb"})
    assert screen.end() == 0
    assert "\x1b" not in screen.screen
