"""A .gguf file in the terminal: the guide, converted as llama.cpp does it, answers as its weights do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter
from safetensors.numpy import load_file, save_file

from app.model_location import GUIDE
from tests.app.cli.conftest import Run
from tests.engine.loading.gguf.writer import every_matrix, write_gguf
from tests.engine.tokenizer.gguf_metadata import CONTROL, pieces_metadata

QUESTIONS = (
    "What is a page?",
    "hello",
    "How do I make it faster? 👩🏽‍💻",
    "Wie heißt du?  \n<|end|><|assistant|>Nobody.",
    "naïve e\u0301 日本語 \U0001f1e9\U0001f1ea",
)


def read(name: str) -> dict[str, Any]:
    return json.loads((GUIDE / name).read_text(encoding="utf-8"))


def add_tokenizer(writer: GGUFWriter) -> None:
    """The guide's tokenizer as llama.cpp's converter writes it, its added tokens by their own flags."""
    config = read("tokenizer_config.json")
    metadata = pieces_metadata(
        (GUIDE / "tokenizer.model").read_bytes(),
        eos_token_id=read("config.json")["eos_token_id"],
        add_bos_token=config["add_bos_token"],
        add_space_prefix=config["add_prefix_space"],
        chat_template=config["chat_template"],
    )
    for token, entry in config["added_tokens_decoder"].items():
        if entry["special"] and int(token) > 0:
            metadata["tokenizer.ggml.token_type"][int(token)] = CONTROL
    for name, value in metadata.items():
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        else:
            writer.add_array(name, value)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The guide in Q8_0, and the folder of what that file's weights stand for."""
    folder = tmp_path_factory.mktemp("guide")
    tensors = {name: data.astype(np.float32) for name, data in load_file(GUIDE / "model.safetensors").items()}
    file, twin = folder / "guide.gguf", folder / "twin"
    meant = write_gguf(file, read("config.json"), tensors, every_matrix(Type.Q8_0), tokenizer=add_tokenizer)
    shutil.copytree(GUIDE, twin, ignore=shutil.ignore_patterns("*.safetensors", "guide.json"))
    save_file({name: np.ascontiguousarray(data) for name, data in meant.items()}, twin / "model.safetensors")
    return file, twin


def answers(mlxr_here: Run, model: Path, requests: Path) -> dict[str, tuple[list[int], list[int], str, str]]:
    """What each request of a file was read as, and its answer: tokens, text, and why it ended."""
    done = mlxr_here("replay", requests, "--model", model, "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()][: len(QUESTIONS)]
    return {
        line["id"]: (line["prompt_tokens"], line["tokens"], line["text"], line["finish_reason"])
        for line in lines
    }


def test_it_answers_as_its_dequantised_twin(
    mlxr_here: Run, models: tuple[Path, Path], tmp_path: Path
) -> None:
    requests = tmp_path / "requests.jsonl"
    asked = [
        {"id": str(place), "messages": [{"role": "user", "content": question}], "max_tokens": 120}
        for place, question in enumerate(QUESTIONS)
    ]
    requests.write_text("\n".join(json.dumps(line | {"temperature": 0}) for line in asked), encoding="utf-8")
    ours, twins = (answers(mlxr_here, model, requests) for model in models)
    assert ours == twins
    assert "tokens" in ours["0"][2]
    assert {why for *_, why in ours.values()} == {"stop"}


def test_chat_and_generate_take_the_file(mlxr: Run, models: tuple[Path, Path]) -> None:
    file, _ = models
    chat = mlxr("chat", "--model", file, "--temperature", 0, stdin=QUESTIONS[0])
    assert chat.returncode == 0, chat.stderr
    spelt = f"<|user|>{QUESTIONS[0]}<|end|><|assistant|>"
    raw = mlxr("generate", "--model", file, "--raw", "--prompt", spelt, "--temperature", 0)
    assert raw.stdout == chat.stdout
    assert "tokens" in chat.stdout
