"""What models are called."""

from __future__ import annotations

import pytest

from app.library.names import checked_name, file_title, made_name, near_names, unique_name
from app.library.records import LibraryError


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("TinyLlama-1.1B-Chat-v1.0", "tinyllama-1.1b-chat-v1.0"),
        ("tinyllama-1.1b-chat-v1.0.Q4_K_M", "tinyllama-1.1b-chat-v1.0:q4_k_m"),
        ("Qwen2.5-7B-Instruct-IQ4_XS", "qwen2.5-7b-instruct:iq4_xs"),
        ("Llama-3.2-1B-Instruct-4bit", "llama-3.2-1b-instruct:4bit"),
        ("Llama-3.2-1B-Instruct-GGUF", "llama-3.2-1b-instruct"),
        ("SmolLM2-135M.F16", "smollm2-135m:f16"),
        ("llama3.2:1b", "llama3.2:1b"),
        ("llama3.2:latest", "llama3.2"),
        ("Mein Modell (neu)", "mein-modell-neu"),
        ("Ünï Llama-é-Q4_0", "uni-llama-e:q4_0"),
        ("模型", "model"),
        ("-q4_0", "model:q4_0"),
        ("x" * 300, "x" * 80),
    ],
)
def test_names_come_from_titles(title: str, name: str) -> None:
    assert made_name(title) == name


def test_a_file_without_a_name_of_its_own_has_its_folders() -> None:
    assert file_title("ggml-model-q4_0", "TinyLlama-GGUF") == "TinyLlama-q4_0"
    assert file_title("model", "TinyLlama-GGUF") == "TinyLlama"
    assert file_title("tiny.Q8_0", "somewhere") == "tiny.Q8_0"


def test_a_taken_name_gets_its_publisher_then_a_number() -> None:
    taken: set[str] = set()
    made: list[str] = []
    for _ in range(4):
        made.append(unique_name("Tiny-Q4_0", "Some One", "", taken.__contains__))
        taken.add(made[-1])
    assert made == ["tiny:q4_0", "tiny-some-one:q4_0", "tiny-2:q4_0", "tiny-3:q4_0"]
    assert unique_name("Tiny-Q4_0", "", "abcdef0123", taken.__contains__) == "tiny:q4_0@abcdef0"


@pytest.mark.parametrize(
    "name",
    ["", "  ", "a b", "a/b", "../up", "~me", "-x", ".x", "guide", "GUIDE", "x.gguf", "y" * 81, "a\x00b"],
)
def test_names_that_could_not_be_typed_are_refused(name: str) -> None:
    with pytest.raises(LibraryError):
        checked_name(name)


def test_a_good_name_is_kept_as_it_is() -> None:
    assert checked_name(" My-Model:Fast@home ") == "My-Model:Fast@home"


def test_near_names_are_those_that_may_have_been_meant() -> None:
    known = ["tinyllama-1.1b:q4_k_m", "TinyLlama-1.1b:q8_0", "qwen2.5-7b", "guide"]
    assert near_names("TINYLLAMA", known) == ["tinyllama-1.1b:q4_k_m", "TinyLlama-1.1b:q8_0"]
    assert near_names("qwen2-7b", known) == ["qwen2.5-7b"]
    assert near_names("someone/qwen2.5-7b", known) == ["qwen2.5-7b"]
    assert near_names("mixtral", known) == []
    assert near_names("", known) == []
