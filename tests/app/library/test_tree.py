"""Finding models in a tree by their names alone."""

from __future__ import annotations

import os
from pathlib import Path

from app.library import tree
from app.library.tree import place_at, walk_tree


def touch(root: Path, *names: str) -> None:
    """Make empty files."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def found(root: Path) -> list[str]:
    """Places in `root` by their paths in it."""
    return [place.path.relative_to(root).as_posix() for place in walk_tree(root).places]


def test_folders_and_files_are_found_however_deep(tmp_path: Path) -> None:
    touch(tmp_path, "a/config.json", "a/model.safetensors", "a/README.md", "b/c/tiny.GGUF", "top.gguf")
    assert found(tmp_path) == ["a", "b/c/tiny.GGUF", "top.gguf"]


def test_weights_without_a_config_and_configs_without_weights_are_none(tmp_path: Path) -> None:
    touch(
        tmp_path, "adapter/adapter.safetensors", "tokenizer/config.json", "old/config.json", "old/model.bin"
    )
    assert found(tmp_path) == []


def test_parts_of_a_file_are_one_model(tmp_path: Path) -> None:
    touch(tmp_path, "m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "m-00003-of-00003.gguf")
    whole, rest = walk_tree(tmp_path).places
    assert (whole.title, len(whole.files), whole.path.name) == ("m", 2, "m-00001-of-00002.gguf")
    assert rest.path.name == "m-00003-of-00003.gguf"
    assert place_at(tmp_path / "m-00002-of-00002.gguf") == whole


def test_what_is_hidden_unfinished_or_for_pictures_is_passed_over(tmp_path: Path) -> None:
    touch(
        tmp_path,
        ".cache/x.gguf",
        "._x.gguf",
        "x.gguf.part",
        "downloading_x.gguf.part",
        "y.gguf.incomplete",
        "mmproj-x-f16.gguf",
    )
    assert found(tmp_path) == []


def test_links_to_folders_are_not_followed_and_links_to_files_are(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    touch(outside, "far.gguf", "blob")
    touch(root, "in/near.gguf")
    (root / "in" / "loop").symlink_to(root)
    (root / "out").symlink_to(outside)
    (root / "linked.gguf").symlink_to(outside / "blob")
    (root / "dead.gguf").symlink_to(outside / "gone")
    assert found(root) == ["dead.gguf", "in/near.gguf", "linked.gguf"]


def test_a_tree_without_end_is_cut_and_said(tmp_path: Path) -> None:
    touch(tmp_path, "/".join("deep" for _ in range(tree.DEEPEST + 1)) + "/x.gguf", "near/y.gguf")
    walk = walk_tree(tmp_path)
    assert walk.is_cut
    assert [place.title for place in walk.places] == ["y"]


def test_names_that_are_no_text_are_passed_over(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad-\xff.gguf")).touch()
    assert found(tmp_path) == []
