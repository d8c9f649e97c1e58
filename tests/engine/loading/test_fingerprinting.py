"""The fingerprint of a model that is loaded: of every byte, read once as long as nobody changes a file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from threading import active_count

import pytest

from engine.errors import EngineClosed, ModelError
from engine.loading.fingerprint import ModelContent, sampled_fingerprint, tensor_digest
from engine.loading.fingerprinting import FILE, MOST, Fingerprinting
from engine.loading.model import load_model
from engine.loading.safetensors_file import StoredTensor
from engine.settings import EngineSettings
from tests.fakes.random_model import write_random_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_random_model(tmp_path / "model", hidden_size=128, intermediate_size=192)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of tensors that were read whole."""
    names = list[str]()

    def told(tensor: StoredTensor, is_wanted: Callable[[], bool]) -> bytes:
        names.append(tensor.name)
        return tensor_digest(tensor, is_wanted)

    monkeypatch.setattr("engine.loading.fingerprinting.tensor_digest", told)
    return names


def content(model: Path) -> ModelContent:
    config = json.loads((model / "config.json").read_text())
    return ModelContent.of_safetensors(config, sorted(model.glob("*.safetensors")))


def later() -> float:
    """A minute from now: files that were written a moment ago are as they were."""
    return time.time() + 60


def fingerprint(model: Path, cache: Path, clock: Callable[[], float] = later) -> str:
    with Fingerprinting(content(model), cache, clock) as fingerprinting:
        return fingerprinting.result()


def test_every_byte_of_every_tensor_counts(model: Path, tmp_path: Path) -> None:
    tensors = content(model).tensors
    file, before = tensors[0].file, fingerprint(model, tmp_path)
    data, sampled = file.read_bytes(), sampled_fingerprint(content(model))
    seen = {before}
    for tensor in tensors:
        at = (tensor.begin + tensor.end) // 2
        file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        seen.add(fingerprint(model, tmp_path))
    assert len(seen) == len(tensors) + 1
    largest = max(tensors, key=lambda one: one.end - one.begin)
    at = (largest.begin + largest.end) // 2
    file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert sampled_fingerprint(content(model)) == sampled  # which pages are not known by


def test_it_is_of_the_settings_and_of_what_sha256_says_of_each_tensor(model: Path, tmp_path: Path) -> None:
    stored = content(model)
    data = stored.tensors[0].file.read_bytes()
    oracle = hashlib.blake2b(json.dumps(stored.relevant, sort_keys=True).encode(), digest_size=16)
    for tensor in sorted(stored.tensors, key=lambda one: one.name):
        oracle.update(repr((tensor.name, tensor.dtype, tensor.shape)).encode())
        oracle.update(hashlib.sha256(data[tensor.begin : tensor.end]).digest())
    assert fingerprint(model, tmp_path) == oracle.hexdigest()


def test_where_a_model_lies_and_in_how_many_files_does_not_matter(model: Path, tmp_path: Path) -> None:
    split = write_random_model(tmp_path / "split", shards=3, hidden_size=128, intermediate_size=192)
    copy = shutil.copytree(model, tmp_path / "copy")
    assert len({fingerprint(one, tmp_path) for one in (model, split, copy)}) == 1


def test_what_was_read_once_is_not_read_again(model: Path, tmp_path: Path, read: list[str]) -> None:
    first = fingerprint(model, tmp_path)
    assert sorted(read) == sorted(one.name for one in content(model).tensors)
    read.clear()
    model.rename(tmp_path / "elsewhere")
    assert fingerprint(tmp_path / "elsewhere", tmp_path) == first
    assert not read


def test_of_two_models_each_is_remembered(model: Path, tmp_path: Path, read: list[str]) -> None:
    other = write_random_model(tmp_path / "other", seed=1)
    told = [fingerprint(one, tmp_path) for one in (model, other)]
    read.clear()
    assert [fingerprint(one, tmp_path) for one in (model, other)] == told
    assert not read


def test_a_change_that_hides_its_time_is_seen(model: Path, tmp_path: Path) -> None:
    file, before = model / "model.safetensors", fingerprint(model, tmp_path)
    stat = file.stat()
    with file.open("r+b") as opened:
        opened.seek(stat.st_size // 2)
        byte = opened.read(1)
        opened.seek(stat.st_size // 2)
        opened.write(bytes([byte[0] ^ 1]))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    assert fingerprint(model, tmp_path) != before


def test_another_permission_changes_nothing_but_that_it_is_read_again(
    model: Path, tmp_path: Path, read: list[str]
) -> None:
    before = fingerprint(model, tmp_path)
    (model / "model.safetensors").chmod(0o400)
    read.clear()
    assert fingerprint(model, tmp_path) == before
    assert read


def test_a_file_that_was_written_a_moment_ago_is_not_remembered(
    model: Path, tmp_path: Path, read: list[str]
) -> None:
    """A change within the same step of the system's clock would have the same time."""
    first = fingerprint(model, tmp_path, time.time)
    read.clear()
    assert fingerprint(model, tmp_path) == first
    assert read


def test_a_model_that_is_changed_while_it_is_loaded_is_not_loaded(model: Path, tmp_path: Path) -> None:
    with Fingerprinting(content(model), tmp_path, later) as fingerprinting:
        os.utime(model / "model.safetensors", (1, 1))
        with pytest.raises(ModelError, match="weights were changed meanwhile; load them again"):
            fingerprinting.result()
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"a": 7}', "[" * 100_000, "\udcff"])
def test_a_damaged_file_of_fingerprints_is_written_anew(
    model: Path, tmp_path: Path, read: list[str], damage: str
) -> None:
    first = fingerprint(model, tmp_path)
    (tmp_path / FILE).write_bytes(damage.encode("utf-8", "surrogateescape"))
    assert fingerprint(model, tmp_path) == first
    read.clear()
    assert fingerprint(model, tmp_path) == first
    assert not read


def test_a_fingerprint_that_is_none_is_not_believed(model: Path, tmp_path: Path) -> None:
    first = fingerprint(model, tmp_path)
    (key,) = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({key: "x" * 32}))
    assert fingerprint(model, tmp_path) == first


def test_the_models_that_came_last_are_remembered(model: Path, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({str(place): "a" * 32 for place in range(MOST)}))
    first = fingerprint(model, tmp_path)
    kept = json.loads((tmp_path / FILE).read_text())
    assert [*kept][:-1] == [str(place) for place in range(1, MOST)]
    assert [*kept.values()][-1] == first


def test_where_nothing_can_be_kept_it_is_said_and_read_again(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    told = {fingerprint(model, tmp_path / "file") for _ in range(2)}
    assert len(told) == 1
    assert "models are read twice at each load" in caplog.text


def test_no_thread_is_left_where_loading_ends_early(model: Path, tmp_path: Path) -> None:
    before = active_count()
    with pytest.raises(KeyboardInterrupt), Fingerprinting(content(model), tmp_path):
        raise KeyboardInterrupt
    assert active_count() == before


def test_who_waits_for_what_is_read_can_end_the_load(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as when the program is closed: all weights are loaded, and much is left to read."""
    until = time.monotonic() + 10

    def endless(tensor: StoredTensor, is_wanted: Callable[[], bool]) -> bytes:
        while is_wanted() and time.monotonic() < until:
            time.sleep(0.001)
        return b""

    told = 0

    def is_closing(done: int, total: int) -> None:
        nonlocal told
        told += done == total
        if told > 1:
            raise EngineClosed("it is")

    monkeypatch.setattr("engine.loading.fingerprinting.tensor_digest", endless)
    with pytest.raises(EngineClosed):
        load_model(model, EngineSettings(cache=tmp_path / "cache"), is_closing)
    assert time.monotonic() < until


def test_a_file_that_is_gone_is_named(model: Path, tmp_path: Path) -> None:
    stored = content(model)
    (model / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model\.safetensors cannot be read"):
        Fingerprinting(stored, tmp_path)
