"""Finding a folder's tokenizer, and one clear line for each thing that can be wrong with it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece
import tokenizers

from engine.commands import Message
from engine.errors import InvalidRequest, TokenizerError
from engine.tokenizer import load_tokenizer

WriteJson = Callable[[Path, str, object], None]


@pytest.fixture
def folder(llama3: Path, tmp_path: Path) -> Path:
    """A copy of a good folder, to be damaged."""
    return Path(shutil.copytree(llama3, tmp_path / "model"))


@pytest.fixture
def folder_of_pieces(pieces: bytes, tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.model").write_bytes(pieces)
    return tmp_path


def change_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")


def ids_of(folder: Path) -> dict[str, int]:
    added = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    return {token["content"]: token["id"] for token in added}


def error_of(folder: Path, rows: int = 1000) -> str:
    with pytest.raises(TokenizerError) as caught:
        load_tokenizer(folder, vocab_size=rows)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_tokenizer_json_is_taken_before_tokenizer_model(folder: Path, pieces: bytes) -> None:
    alone = load_tokenizer(folder, vocab_size=1000)
    (folder / "tokenizer.model").write_bytes(pieces)
    both = load_tokenizer(folder, vocab_size=1000)
    assert both.encode("The quick brown fox") == alone.encode("The quick brown fox")


def test_a_broken_tokenizer_json_is_not_passed_over(folder: Path, pieces: bytes) -> None:
    (folder / "tokenizer.model").write_bytes(pieces)
    (folder / "tokenizer.json").write_text('{"model": ', encoding="utf-8")
    assert "tokenizer.json is not a readable tokenizer" in error_of(folder)


def test_no_tokenizer_at_all(tmp_path: Path) -> None:
    assert "neither tokenizer.json nor tokenizer.model" in error_of(tmp_path)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x0a\x03abc"])
def test_a_broken_sentencepiece_model(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.model").write_bytes(content)
    assert "tokenizer.model" in error_of(tmp_path)


def test_a_truncated_sentencepiece_model(tmp_path: Path, pieces: bytes) -> None:
    (tmp_path / "tokenizer.model").write_bytes(pieces[: len(pieces) // 2])
    assert "tokenizer.model" in error_of(tmp_path)


@pytest.mark.parametrize(
    "name", ["tokenizer_config.json", "special_tokens_map.json", "generation_config.json"]
)
@pytest.mark.parametrize("content", ["{", "[1]", "\udcff"])
def test_a_broken_json_file_is_named(folder: Path, name: str, content: str) -> None:
    (folder / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    assert name in error_of(folder)


@pytest.mark.parametrize(
    "entry",
    [
        {"x": {"content": "a"}},
        {"5": {"content": ""}},
        {"5": "a"},
        {"5": {"special": True}},
    ],
)
def test_an_unusable_added_token(folder: Path, entry: dict[str, object]) -> None:
    change_json(folder / "tokenizer_config.json", added_tokens_decoder=entry)
    assert "added_tokens_decoder" in error_of(folder)


def test_added_tokens_that_clash(folder: Path, folder_of_pieces: Path, write_json: WriteJson) -> None:
    taken = {"7": {"content": "<|mine|>"}}
    change_json(folder / "tokenizer_config.json", added_tokens_decoder=taken)
    assert "<|mine|>" in error_of(folder)
    write_json(folder_of_pieces, "tokenizer_config.json", {"added_tokens_decoder": taken})
    assert "<|mine|>" in error_of(folder_of_pieces)
    write_json(folder_of_pieces, "tokenizer_config.json", {})
    write_json(folder_of_pieces, "added_tokens.json", {"<|a|>": 900, "<|b|>": 900})
    assert "clash" in error_of(folder_of_pieces)


def test_more_tokens_than_the_model_has_rows(folder: Path, folder_of_pieces: Path) -> None:
    size = load_tokenizer(folder, vocab_size=1000).vocab_size
    assert load_tokenizer(folder, vocab_size=size).vocab_size == size
    for broken, rows in ((folder, size - 1), (folder, 100), (folder_of_pieces, 100)):
        text = error_of(broken, rows)
        assert f"{rows} embedding rows" in text
        assert str(broken) in text


def test_a_control_token_without_a_row_is_let_be_until_used(folder: Path) -> None:
    # As in text models that keep the tokenizer of their sibling that sees images.
    path = folder / "tokenizer.json"
    size = load_tokenizer(folder, vocab_size=1000).vocab_size
    token = {"id": size, "content": "<image>", "special": True, "normalized": False}
    token |= {"single_word": False, "lstrip": False, "rstrip": False}
    change_json(path, added_tokens=[*json.loads(path.read_text(encoding="utf-8"))["added_tokens"], token])
    assert load_tokenizer(folder, vocab_size=size + 1).vocab_size == size + 1
    tokenizer = load_tokenizer(folder, vocab_size=size)
    assert tokenizer.vocab_size == size
    assert max(tokenizer.encode("an <image>")) < size
    assert max(tokenizer.encode_chat([Message("user", "an <image>")])) < size
    with pytest.raises(InvalidRequest, match="<image>"):
        tokenizer.encode("an <image>", special=True)


def test_end_tokens_are_the_union_of_all_sources(folder: Path, write_json: WriteJson) -> None:
    write_json(folder, "generation_config.json", {"eos_token_id": [3, 4]})
    ids = ids_of(folder)
    tokenizer = load_tokenizer(folder, vocab_size=1000, config_eos=[5])
    assert tokenizer.eos_ids == {3, 4, 5, ids["<|end_of_text|>"], ids["<|eot_id|>"]}
    write_json(folder, "generation_config.json", {"eos_token_id": 6})
    assert 6 in load_tokenizer(folder, vocab_size=1000).eos_ids


def test_end_of_a_message_is_not_the_end_where_a_turn_has_several(
    folder_of_pieces: Path, write_json: WriteJson
) -> None:
    write_json(folder_of_pieces, "added_tokens.json", {"<|end|>": 900})
    assert 900 in load_tokenizer(folder_of_pieces, vocab_size=1000).eos_ids
    write_json(folder_of_pieces, "added_tokens.json", {"<|end|>": 900, "<|return|>": 901})
    assert 900 not in load_tokenizer(folder_of_pieces, vocab_size=1000).eos_ids


@pytest.mark.parametrize("value", ["2", -1, True, [1, None], 1.5])
def test_an_absurd_end_token(folder: Path, write_json: WriteJson, value: object) -> None:
    write_json(folder, "generation_config.json", {"eos_token_id": value})
    assert "eos_token_id" in error_of(folder)


def test_end_tokens_that_the_model_cannot_generate_are_left_out(folder: Path, write_json: WriteJson) -> None:
    write_json(folder, "generation_config.json", {"eos_token_id": [7, 2000]})
    assert load_tokenizer(folder, vocab_size=1000, config_eos=[-1, 1000]).eos_ids & {-1, 7, 1000, 2000} == {7}


def test_the_config_names_bos_where_no_tokenizer_file_does(tmp_path: Path, unigram: Path) -> None:
    shutil.copy(unigram / "tokenizer.json", tmp_path)
    tokenizer = load_tokenizer(tmp_path, vocab_size=1000, config_bos=1)
    assert tokenizer.bos_id == 1
    assert 1 not in tokenizer.encode("x")  # nothing says that texts start with it


def test_a_start_token_beyond_the_rows(tmp_path: Path, unigram: Path, write_json: WriteJson) -> None:
    shutil.copy(unigram / "tokenizer.json", tmp_path)
    assert 2000 not in load_tokenizer(tmp_path, vocab_size=1000, config_bos=2000).encode("x")
    write_json(tmp_path, "tokenizer_config.json", {"add_bos_token": True})
    with pytest.raises(TokenizerError, match="start token is 2000"):
        load_tokenizer(tmp_path, vocab_size=1000, config_bos=2000)


TEMPLATES = {
    "jinja file": ("chat_template.jinja", None),
    "string": ("tokenizer_config.json", "T"),
    "list": (
        "tokenizer_config.json",
        [{"name": "tools", "template": "X"}, {"name": "default", "template": "T"}],
    ),
    "only one": ("tokenizer_config.json", [{"name": "chat", "template": "T"}]),
    "older file": ("chat_template.json", "T"),
}


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_template_is_found(kind: str, folder_of_pieces: Path, write_json: WriteJson) -> None:
    name, value = TEMPLATES[kind]
    if value is None:
        (folder_of_pieces / name).write_text("T", encoding="utf-8")
        write_json(folder_of_pieces, "tokenizer_config.json", {"chat_template": "X"})
    else:
        write_json(folder_of_pieces, name, {"chat_template": value})
    template = load_tokenizer(folder_of_pieces, vocab_size=1000).chat_template
    assert template is not None
    assert template.render([Message("user", "x")]) == "T"


@pytest.mark.parametrize(
    "value", [7, [], [{"name": "a", "template": "T"}, {"name": "b", "template": "T"}], [{}]]
)
def test_no_template_can_be_chosen(folder_of_pieces: Path, write_json: WriteJson, value: object) -> None:
    write_json(folder_of_pieces, "tokenizer_config.json", {"chat_template": value})
    assert "chat_template" in error_of(folder_of_pieces)


def test_a_template_knows_the_tokens_of_the_pieces(folder_of_pieces: Path, write_json: WriteJson) -> None:
    template = {"chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"}
    write_json(folder_of_pieces, "tokenizer_config.json", template)
    tokenizer = load_tokenizer(folder_of_pieces, vocab_size=1000)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(folder_of_pieces / "tokenizer.model"))
    ids = tokenizer.encode_chat([Message("user", "x")])
    assert [ids[0], ids[-1]] == [theirs.bos_id(), theirs.eos_id()]


def test_without_a_template_a_chat_is_refused(folder_of_pieces: Path) -> None:
    with pytest.raises(InvalidRequest, match="no chat template"):
        load_tokenizer(folder_of_pieces, vocab_size=1000).encode_chat([Message("user", "hi")])


def test_a_decoder_that_cannot_be_streamed(folder: Path) -> None:
    change_json(folder / "tokenizer.json", decoder={"type": "WordPiece", "prefix": "##", "cleanup": True})
    assert "WordPiece" in error_of(folder)


def test_a_vocabulary_of_words(tmp_path: Path) -> None:
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"hello": 0, "world": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path, vocab_size=3)
    assert tokenizer.encode("hello world x") == [0, 1, 2]
    assert tokenizer.decode([1, 0]) == "world hello"


def test_text_that_a_vocabulary_cannot_express(tmp_path: Path) -> None:
    tokenizers.Tokenizer(tokenizers.models.Unigram([("z", -1.0)])).save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path, vocab_size=3)
    assert tokenizer.encode("zz") == [0, 0]
    with pytest.raises(InvalidRequest, match="cannot encode the text"):
        tokenizer.encode("a")


def test_an_empty_vocabulary(tmp_path: Path) -> None:
    tokenizers.Tokenizer(tokenizers.models.BPE()).save(str(tmp_path / "tokenizer.json"))
    assert "empty" in error_of(tmp_path)


def test_control_texts_are_found_one_inside_another(folder: Path, write_json: WriteJson) -> None:
    # "<a" ends where "a>" begins: whichever is hidden first, no id of either may come of a person's text.
    path = folder / "tokenizer.json"
    size = load_tokenizer(folder, vocab_size=1000).vocab_size
    flags = {"special": True, "normalized": False, "single_word": False, "lstrip": False, "rstrip": False}
    more = [{"id": size + i, "content": text, **flags} for i, text in enumerate(["<a", "a>", "<a><b>"])]
    change_json(path, added_tokens=[*json.loads(path.read_text(encoding="utf-8"))["added_tokens"], *more])
    tokenizer = load_tokenizer(folder, vocab_size=1000)
    for text in ("<a>", "<a><b>", "a><a", "<<a>>"):
        ids = tokenizer.encode_chat([Message("user", text)])
        assert max(ids) < size
        assert text in tokenizer.decode(ids)
