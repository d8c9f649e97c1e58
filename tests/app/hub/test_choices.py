"""From a repository's list of files to what a person can choose from."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.hub.choice import Choice, RepoFacts, RepoFile, safetensors_parameters
from app.hub.choices import find_choice, recommend, repo_choices
from app.hub.errors import NoSuchChoice
from app.hub.file_names import refusals
from app.hub.quantizations import quantization_in
from engine import GGUF_TYPES

GB = 10**9
TOKENIZER = ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json")


def listed(*names: str, size: int = 1000) -> list[RepoFile]:
    return [RepoFile(name, size) for name in names]


def only(files: list[RepoFile], facts: RepoFacts | None = None) -> Choice:
    found = repo_choices(files, facts)
    assert len(found.choices) == 1, found
    return found.choices[0]


def names_of(choice: Choice) -> list[str]:
    return [file.name for file in choice.files]


@pytest.mark.parametrize(
    ("file", "name", "types"),
    [
        ("tinyllama-1.1b-chat-v1.0.Q4_K_M.gguf", "Q4_K_M", ("Q4_K", "Q6_K")),
        ("qwen2.5-0.5b-instruct-q4_k_m.gguf", "Q4_K_M", ("Q4_K", "Q6_K")),
        ("qwen2.5-0.5b-instruct-fp16.gguf", "F16", ("F16",)),
        ("Llama-3.2-1B-Instruct-UD-Q4_K_XL.gguf", "UD-Q4_K_XL", ("Q4_K", "Q6_K")),
        ("Model.i1-IQ4_XS.gguf", "i1-IQ4_XS", ("IQ4_XS", "Q6_K")),
        ("BF16/Model-BF16-00001-of-00001.gguf", "BF16", ("BF16",)),
        ("Q8_0-study-Q5_K_S-v2.gguf", "Q5_K_S", ("Q5_K", "Q6_K")),
        ("Model-Q4_0_4_4.gguf", "Q4_0_4_4", ("Q4_0_4_4",)),
        ("Phi-3-mini-4k-instruct-q4.gguf", "Q4", ("Q4_0", "Q6_K")),
        ("granite-F32.gguf", "F32", ("F32",)),
        ("my-model.gguf", "my-model", ()),
        ("My-Model.GGUF", "My-Model", ()),
        ("tinyllama-1.1b-chat-v1.0--Q4_0.GGUF", "Q4_0", ("Q4_0", "Q6_K")),
    ],
)
def test_a_gguf_file_is_called_after_its_quantisation(file: str, name: str, types: tuple[str, ...]) -> None:
    choice = only(listed(file))
    assert (choice.name, choice.key, choice.types) == (name, name.casefold(), types)
    assert choice.format == "gguf"


def test_all_parts_of_a_split_model_are_one_choice() -> None:
    parts = [f"Q8_0/Big-Q8_0-0000{number}-of-00003.gguf" for number in (2, 1, 3)]
    choice = only(listed(*parts, "README.md", size=5 * GB))
    assert names_of(choice) == sorted(parts)
    assert choice.bytes == 15 * GB
    assert not choice.unsupported


def test_a_split_model_without_all_its_parts_says_so() -> None:
    choice = only(listed("Big-Q8_0-00001-of-00003.gguf", "Big-Q8_0-00003-of-00003.gguf"))
    assert "1 of its 3 parts" in choice.unsupported
    choice = only(listed("Big-Q8_0-00001-of-00001.gguf", "Big-Q8_0-00002-of-00001.gguf"))
    assert "wrongly numbered" in choice.unsupported


def test_a_model_that_is_there_whole_and_in_parts_is_fetched_whole() -> None:
    parts = [f"q-q4_k_m-0000{number}-of-00002.gguf" for number in (1, 2)]
    assert names_of(only(listed("q-q4_k_m.gguf", *parts))) == ["q-q4_k_m.gguf"]


def test_what_is_no_language_model_is_no_choice() -> None:
    files = listed("mmproj-model-f16.gguf", "model.imatrix.gguf", "model-lora-f16.gguf", "onnx/model.onnx")
    assert repo_choices(files).choices == ()


def test_types_and_families_that_do_not_run_are_shown_with_the_reason() -> None:
    choice = only(listed("Model-IQ2_XS.gguf"))
    assert "IQ2_XS" in choice.unsupported
    choice = only(listed("Model-Q4_K_M.gguf"), RepoFacts(gguf_family="mamba"))
    assert "mamba" in choice.unsupported
    choice = only(listed("model.safetensors", *TOKENIZER), RepoFacts(family="bert"))
    assert "bert" in choice.unsupported


def test_every_name_the_engine_reads_is_known_and_runs() -> None:
    for name in GGUF_TYPES:
        spelled = f"{name}_M" if name in ("Q3_K", "Q4_K", "Q5_K") else name
        choice = only(listed(f"model-{spelled}.gguf"))
        assert choice.types[0] == name
        assert not choice.unsupported


def test_bits_per_weight_come_from_the_sizes() -> None:
    facts = RepoFacts(parameters=8_030_261_312)
    choice = only([RepoFile("Llama-3.1-8B-Q4_K_M.gguf", 4_920_734_240)], facts)
    assert choice.bits == pytest.approx(4.90, abs=0.01)
    # The Hub counted another model of the repository: then the usual bits tell the parameters.
    choice = only([RepoFile("Llama-3.1-8B-Q4_K_M.gguf", 4_920_734_240)], RepoFacts(parameters=10**9))
    assert choice.bits == 4.85
    assert choice.parameters == pytest.approx(8.1e9, rel=0.02)


def test_unknown_sizes_are_no_error() -> None:
    choice = only([RepoFile("model-Q8_0.gguf")])
    assert (choice.bytes, choice.parameters) == (0, None)


def test_safetensors_are_fetched_with_what_the_engine_needs_and_nothing_else() -> None:
    weights = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    beside = [*TOKENIZER, "model.safetensors.index.json", "chat_template.jinja", "merges.txt", "vocab.json"]
    others = [
        "consolidated.safetensors",
        "adapter_model.safetensors",
        "pytorch_model-00001-of-00002.bin",
        "original/consolidated.00.pth",
        "onnx/model.onnx",
        "onnx/config.json",
        "picture.png",
        "README.md",
        "trainer_state.json",
        "modeling_custom.py",
        "text_encoder/model.safetensors",
    ]
    choice = only(listed(*weights, *beside, *others), RepoFacts(elements={"BF16": 1000}, family="llama"))
    assert names_of(choice)[:2] == weights
    assert sorted(names_of(choice)[2:]) == sorted(beside)
    assert (choice.name, choice.key, choice.weight_bytes, choice.bytes) == ("BF16", "bf16", 2000, 10_000)
    assert not choice.unsupported


@pytest.mark.parametrize("packed", [74_506_240, 596_049_920], ids=["words", "weights"])
def test_an_mlx_repository_is_called_after_its_bits(packed: int) -> None:
    # As mlx-community/Qwen3-0.6B-4bit; the Hub has counted words, and weights.
    elements = {"U32": packed, "BF16": 18_692_096}
    facts = RepoFacts("some/Qwen3-0.6B-4bit", "qwen3", elements=elements, bits=4)
    files = [RepoFile("model.safetensors", 335_409_152), *listed(*TOKENIZER)]
    choice = only(files, facts)
    assert (choice.name, choice.key) == ("4-bit MLX", "4bit")
    assert choice.bits == pytest.approx(4.5, abs=0.05)
    assert choice.parameters == pytest.approx(596_049_920, rel=0.01)
    assert safetensors_parameters(facts) == choice.parameters


def test_without_facts_the_name_of_the_repository_tells_the_bits() -> None:
    choice = only(listed("model.safetensors", *TOKENIZER), RepoFacts("some/Model-8bit"))
    assert choice.key == "8bit"
    choice = only(listed("model.safetensors", *TOKENIZER), RepoFacts("some/Model"))
    assert choice.key == "safetensors"


def test_folders_called_after_a_quantisation_are_choices_of_their_own() -> None:
    folders = [
        f"{folder}/{name}" for folder in ("4bit", "mlx-q8") for name in ("model.safetensors", *TOKENIZER)
    ]
    found = repo_choices(listed(*folders)).choices
    assert {choice.key for choice in found} == {"4bit", "8bit"}
    assert all(name.startswith("4bit/") for name in names_of(find_choice(found, "4bit")))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (["model.safetensors", "tokenizer.json"], "config.json"),
        (["model.safetensors", "config.json"], "tokenizer"),
        (["model-00001-of-00002.safetensors", *TOKENIZER], "2 parts"),
    ],
)
def test_a_repository_that_lacks_something_says_what(files: list[str], reason: str) -> None:
    assert reason in only(listed(*files)).unsupported


def test_weights_of_other_quantisers_do_not_run() -> None:
    choice = only(listed("model.safetensors", *TOKENIZER), RepoFacts(bits=4, method="gptq"))
    assert (choice.key, choice.name) == ("gptq", "GPTQ")
    assert "gptq" in choice.unsupported


def test_pickles_are_never_a_choice() -> None:
    found = repo_choices(listed("pytorch_model.bin", *TOKENIZER))
    assert found.choices == ()
    assert "pickled" in found.left_out[0]


def test_names_that_are_not_safe_are_left_out_and_said() -> None:
    found = repo_choices(listed("../evil-Q8_0.gguf", "good-Q8_0.gguf", "Twin-Q4_0.gguf", "twin-Q4_0.gguf"))
    assert [names_of(choice) for choice in found.choices] == [["good-Q8_0.gguf"]]
    assert len(found.left_out) == 3
    assert all(line.isprintable() for line in found.left_out)
    assert repo_choices([RepoFile("model-Q8_0.gguf", -1)]).choices == ()


def test_two_models_of_one_quantisation_keep_apart() -> None:
    found = repo_choices(listed("a-Q8_0.gguf", "b-Q8_0.gguf", "b-Q4_0.gguf")).choices
    assert {choice.key for choice in found} == {"a-q8_0", "b-q8_0", "q4_0"}
    assert names_of(find_choice(found, "A-Q8_0")) == ["a-Q8_0.gguf"]


def test_one_quantisation_in_two_formats_keeps_apart() -> None:
    files = listed("m-BF16.gguf", "model.safetensors", *TOKENIZER)
    found = repo_choices(files, RepoFacts("org/m-bf16")).choices
    assert find_choice(found, "bf16").format == "gguf"
    assert find_choice(found, "bf16-safetensors").format == "safetensors"


NAMES = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.from_regex(
            r"((4bit|Q8_0|\.\.|a|A)/)?(m|M|model)-?(Q8_0|q4_k_m|BF16)?(-0000[1-3]-of-0000[1-3])?",
            fullmatch=True,
        ).map(lambda stem: stem + ".gguf"),
        st.from_regex(r"((4bit|mlx|\.\.)/)?model(-0000[1-3]-of-00002)?\.safetensors", fullmatch=True),
        st.sampled_from(["config.json", "4bit/config.json", "tokenizer.json", "mmproj-f16.gguf", "a.bin"]),
    ),
    max_size=12,
)


@given(
    NAMES, st.sampled_from([RepoFacts(), RepoFacts("o/m-4bit", "llama", bits=4), RepoFacts(family="bert")])
)
def test_whatever_a_repository_holds_no_choice_is_unsafe(names: list[str], facts: RepoFacts) -> None:
    found = repo_choices(listed(*names), facts)
    refused = refusals(names)
    for choice in found.choices:
        assert choice.files
        assert not {file.name for file in choice.files} & set(refused)
        assert all(file.name.endswith((".gguf", ".safetensors", ".json")) for file in choice.files)
        assert choice.bytes == 1000 * len(choice.files)
        assert find_choice(found.choices, choice.key) == choice
    assert len({choice.key for choice in found.choices}) == len(found.choices)
    assert all(line.isprintable() for line in found.left_out)


def test_a_choice_is_found_as_people_type_it() -> None:
    found = repo_choices(listed("m-Q4_K_M.gguf", "m-Q8_0.gguf", "model.safetensors", *TOKENIZER)).choices
    for typed in ("q8_0", " Q8_0 ", "m-Q8_0.gguf"):
        assert names_of(find_choice(found, typed)) == ["m-Q8_0.gguf"]
    with pytest.raises(NoSuchChoice, match=re.escape("q4_k_m, q8_0")):
        find_choice(found, "Q5_K_M")


def eight_billion(*names: str) -> tuple[Choice, ...]:
    """Choices of an 8B model, with the bytes that their bits take."""
    parameters = 8 * GB
    named = [(name, quantization_in(name)) for name in names]
    files = [RepoFile(f"m-{name}.gguf", int(parameters * (q[1].bits if q else 0) / 8)) for name, q in named]
    return repo_choices(files, RepoFacts(parameters=parameters)).choices


@pytest.mark.parametrize(("memory", "expected"), [(64, "Q4_K_M"), (12, "Q4_K_M"), (6, "Q3_K_M"), (2, None)])
def test_the_recommended_one_is_good_and_leaves_room(memory: int, expected: str | None) -> None:
    found = eight_billion("BF16", "Q8_0", "Q4_K_M", "Q4_K_S", "Q3_K_M", "IQ2_XS")
    best = recommend(found, memory * GB)
    assert (best.name if best else None) == expected


def test_small_models_are_recommended_with_more_bits() -> None:
    files = [RepoFile("m-Q4_K_M.gguf", 480_000_000), RepoFile("m-Q8_0.gguf", 800_000_000)]
    best = recommend(repo_choices(files, RepoFacts(parameters=752_941_176)).choices, 16 * GB)
    assert best is not None
    assert best.name == "Q8_0"


def test_where_only_large_ones_fit_the_smallest_is_recommended() -> None:
    best = recommend(eight_billion("BF16", "Q8_0"), 64 * GB)
    assert best is not None
    assert best.name == "Q8_0"
