"""What lies in a model's folder is no file, is somewhere else, changes, or would run when opened."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from engine.errors import ModelError
from engine.loading.model import load_model
from engine.settings import EngineSettings
from tests.fuzz.opener import Opener

FILES = {
    "plain": ["config.json", "model.safetensors", "tokenizer.model", "tokenizer_config.json"],
    "sharded": ["model.safetensors.index.json", "tokenizer.json", "generation_config.json"],
    "gguf": ["model.gguf"],
}
GIANT = 1 << 40


def _giant(path: Path) -> None:
    path.touch()
    os.truncate(path, GIANT)  # sparse: it takes no room


ODD: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "nothing": lambda path: path.symlink_to("gone"),
    "itself": lambda path: path.symlink_to(path.name),
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "giant": _giant,
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    ("model", "file"), [(base, file) for base in FILES for file in FILES[base]], indirect=["model"]
)
def test_what_is_no_ordinary_file_is_one_line(opener: Opener, model: Path, file: str, odd: str) -> None:
    (model / file).unlink()
    try:
        ODD[odd](model / file)
    except OSError as error:
        pytest.skip(f"cannot be made here: {error}")
    outcome = opener.open(model)
    if odd == "giant":
        os.truncate(model / file, 0)  # what is honest is what was written
    assert not outcome.complaint(model)
    is_optional = file in ("generation_config.json", "model.safetensors.index.json", "tokenizer_config.json")
    is_gone = odd in ("nothing", "itself")
    assert outcome.kind == "refused" or (is_optional and is_gone)


@pytest.mark.parametrize(
    "name", ["../other/model.safetensors", "{other}", "./model.safetensors", "", ".", "a\0b"]
)
def test_an_index_names_no_file_elsewhere(opener: Opener, model: Path, name: str) -> None:
    other = shutil.copytree(model, model.parent / "other") / "model.safetensors"
    names = dict.fromkeys(load_file(other), name.format(other=other))
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    outcome = opener.open(model)
    assert outcome.kind == "refused"
    assert not outcome.complaint(model, "model.safetensors.index.json", "weight_map")


@pytest.mark.parametrize("model", ["sharded"], indirect=True)
def test_a_tensor_in_two_files_is_refused(opener: Opener, model: Path) -> None:
    first, second = (model / f"model-0000{part}-of-00002.safetensors" for part in (1, 2))
    tensors = load_file(first)
    name = sorted(tensors)[0]
    save_file({**load_file(second), name: tensors[name]}, second)
    outcome = opener.open(model)
    assert outcome.kind == "refused"
    assert not outcome.complaint(model, second.name, name)


class _Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self._mark,)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.pt", "consolidated.00.pth", "model.safetensors"]
)
def test_pickled_weights_are_never_opened(opener: Opener, model: Path, name: str) -> None:
    mark = model.parent / "the trap went off"
    (model / "model.safetensors").unlink()
    (model / name).write_bytes(pickle.dumps(_Trap(mark)))
    outcome = opener.open(model)
    assert outcome.kind == "refused"
    assert not outcome.complaint(model, name)
    assert not mark.exists()
    pickle.loads((model / name).read_bytes())
    assert mark.exists()  # it would have


@pytest.mark.parametrize("model", ["gguf parts"], indirect=True)
@pytest.mark.parametrize(
    "name",
    [
        "model-00000-of-00000.gguf",
        "model-00003-of-00002.gguf",
        "model-00002-of-00003.gguf",
        "model-00001-of-99999.gguf",
        "-00001-of-00002.gguf",
        "model-00001-of-00002.gguf.gguf",
        "model-٠٠٠٠١-of-٠٠٠٠٢.gguf",
        "mo\ndel-00001-of-00002.gguf",
    ],
)
def test_a_part_s_name_that_misleads_is_refused(opener: Opener, model: Path, name: str) -> None:
    (model / "model-00001-of-00002.gguf").rename(model / name)
    outcome = opener.open(model / name)
    assert outcome.kind == "refused"
    assert not outcome.complaint(model)


@pytest.mark.parametrize("model", ["gguf parts"], indirect=True)
@pytest.mark.parametrize("swap", [(1, 1), (2, 2), (2, 1)])
def test_parts_in_the_wrong_place_are_refused(opener: Opener, model: Path, swap: tuple[int, int]) -> None:
    files = [model / f"model-0000{part}-of-00002.gguf" for part in (1, 2)]
    contents = [file.read_bytes() for file in files]
    for file, part in zip(files, swap, strict=True):
        file.write_bytes(contents[part - 1])
    outcome = opener.open(files[0])
    assert outcome.kind == "refused"
    assert not outcome.complaint(model, None, "split.")


@pytest.mark.parametrize("model", ["plain", "quantised", "gguf"], indirect=True)
@pytest.mark.parametrize("keep", [10, 3000])
@pytest.mark.parametrize("when", [0, 1, 4])
def test_a_file_that_shrinks_while_it_is_loaded_is_one_line(model: Path, when: int, keep: int) -> None:
    (file,) = [path for path in model.iterdir() if path.suffix in (".safetensors", ".gguf")]
    calls = 0

    def shrink(done: int, total: int) -> None:
        nonlocal calls
        if calls == when:
            os.truncate(file, keep)
        calls += 1

    with pytest.raises(ModelError, match=file.name):
        load_model(model, EngineSettings(page_size=4, kv_pages=8), shrink)
