"""What the guide says about files, chats on disk and privacy."""

from __future__ import annotations

from resources.guide.facts import Facts
from resources.guide.topic import Topic, topic


def topics(f: Facts) -> list[Topic]:
    """Topics about where things are kept and who can see them."""
    return [*_files(f), *_privacy(f)]


def _files(f: Facts) -> list[Topic]:
    folders = (r"Library/Application Support/MLXR", r"\.local/share/mlxr")
    return [
        topic(
            "data_folder",
            "where MLXR keeps its data or files",
            folders,
            f"MLXR keeps its data in {f.mac_home} on a Mac and in {f.linux_home} on Linux.",
        ),
        topic(
            "move_data",
            "how to move the data to another folder or disk, what MLXR_HOME does",
            f.home_variable,
            f"Set the environment variable {f.home_variable} to a folder, and MLXR keeps all of its data "
            f"there.",
        ),
        topic(
            "chats_saved",
            "whether chats are saved, where the history is, do they survive a restart",
            f.chats_file.replace(".", r"\."),
            f"Every chat is saved as it is written, in {f.chats_file} in the data folder, and is there "
            f"again after "
            "a restart.",
        ),
        topic(
            "backup",
            "how to back up, export or copy chats to another computer",
            ("copy", r"chats\.sqlite3"),
            f"Quit MLXR and copy {f.chats_file} from the data folder: it holds all of your chats.",
        ),
        topic(
            "delete_all_chats",
            "how to delete all chats at once",
            (f.chats_file.replace(".", r"\."), "all"),
            f"Quit MLXR and delete {f.chats_file} and {f.cache_folder} in the data folder: all of your "
            "chats are then gone.",
        ),
        topic(
            "cache_size",
            "how big the cache on disk gets, how to clear it",
            (f"{f.cache_gigabytes} GB", "settings"),
            f"The folder {f.cache_folder} takes at most {f.cache_gigabytes} GB. Switch it off in the "
            "settings and it is cleared with the next start.",
        ),
        topic(
            "settings_file",
            "where settings are stored, how to reset them",
            f.settings_file.replace(".", r"\."),
            f"Settings are in {f.settings_file} in the data folder; delete that file to go back to the "
            f"defaults.",
        ),
        topic(
            "log_file",
            "where the log is",
            f.log_file.replace(".", r"\."),
            f"The log is {f.log_file} in the data folder.",
        ),
        topic(
            "hf_home",
            "what HF_HOME does, whether models in the Hugging Face cache are found",
            ("HF_HOME", "Hugging Face cache"),
            "MLXR finds models that are already in the Hugging Face cache, and HF_HOME says where that "
            "cache is.",
        ),
        topic(
            "guide_files",
            "where the guide's own model files are, how to come back to the guide",
            "resources/guide/model",
            "My files are in resources/guide/model. To come back to me, choose Guide in the model menu.",
        ),
    ]


def _privacy(f: Facts) -> list[Topic]:
    return [
        topic(
            "privacy",
            "whether chats are private, who can read them, are they used for training",
            ("private", "leaves your machine"),
            "Your chats are private: models run here, and no message leaves your machine or trains anything.",
        ),
        topic(
            "offline",
            "whether it works without internet",
            ("without a network",),
            "Yes, MLXR works without a network. Only finding and downloading new models needs one.",
        ),
        topic(
            "telemetry",
            "whether there is tracking, analytics or phoning home",
            ("no telemetry",),
            "There is no telemetry, no tracking and no analytics in MLXR; only what you look for or "
            "download on the Hub is asked there.",
        ),
        topic(
            "encryption",
            "whether chats are encrypted on disk or password protected",
            ("not encrypted", "FileVault"),
            "Chats on disk are not encrypted by MLXR: turn on disk encryption, such as FileVault on a Mac, "
            "to "
            "protect them.",
        ),
    ]
