"""What the guide says about the Models page: the library, the Hub, and downloads."""

from __future__ import annotations

from resources.guide.answers.window import keys
from resources.guide.facts import Facts
from resources.guide.topic import Topic, topic


def topics(f: Facts) -> list[Topic]:
    """Topics about finding, judging, downloading and keeping models."""
    return [*_page(f), *_choosing(), *_downloads(), *_access(), *_library(f)]


def _page(f: Facts) -> list[Topic]:
    return [
        topic(
            "models_page",
            "what the Models page is, how to open it",
            (keys(f, "models"), "Models page"),
            f"Press {f.key('models')} for the Models page: there you find, download, open, rename and delete "
            "models.",
        ),
        topic(
            "search_hub",
            "how to search the Hugging Face Hub for models",
            ("Discover", "Enter"),
            "Choose Discover on the Models page, type words into the search field and press Enter: it "
            "searches the Hugging Face Hub, and filters narrow that.",
        ),
    ]


def _choosing() -> list[Topic]:
    return [
        topic(
            "fit_words",
            "what Fits, Tight and Does not fit on the Models page mean",
            ("Tight", "shorter chat"),
            "Fits: weights and a chat of the chosen length go into your memory. Tight: only a shorter chat "
            "does. Does not fit: the weights are too big.",
        ),
        topic(
            "best_version",
            "which version or quantisation of a model to download, what Best here means",
            ("Best here",),
            "Take the version marked Best here: the best quality that leaves room for chats in this "
            "machine's memory.",
        ),
        topic(
            "model_card",
            "what a model card is, where to read about a model",
            ("card", "authors"),
            "A model's card is what its authors say of it. Choose a model under Discover to read it.",
        ),
        topic(
            "model_licence",
            "which licence a model has, whether one may use a model at work",
            ("licence", "authors", "Models page"),
            "A model has a licence of its own, given by its authors: the Models page shows it before you "
            "download.",
        ),
    ]


def _downloads() -> list[Topic]:
    return [
        topic(
            "download_progress",
            "where the progress of a download is shown, whether one can chat meanwhile",
            ("time left", "chat meanwhile"),
            "Downloads stand at the foot of the Models page, with bytes, rate and time left; you can chat "
            "meanwhile.",
        ),
        topic(
            "files_at_once",
            "whether several models are downloaded at once, how to make downloads faster",
            ("one after the other", "settings"),
            "Downloads come one after the other; the settings say how many files of one are fetched at once.",
        ),
        topic(
            "cancel_download",
            "how to cancel a download, give it up and remove what there is of it",
            ("Cancel", "--cancel"),
            "Click Cancel beside the download, or run `mlxr pull REPO --cancel`: what there is of it is "
            "removed.",
        ),
        topic(
            "download_space",
            "whether the disk has room for a download, not enough disk space for a model",
            ("room", "2 GB"),
            "A download begins only if the disk has room for it and 2 GB more: delete models you no longer "
            "use.",
        ),
        topic(
            "hub_offline",
            "error: the Hub cannot be reached, a search or download fails without a network",
            ("network", "already here"),
            "The Hub needs a network: check yours and try again. Models that are already here open without "
            "one.",
        ),
        topic(
            "mirror",
            "how to use a proxy or a mirror of the Hub",
            ("HF_ENDPOINT", "HTTPS_PROXY"),
            "Set HF_ENDPOINT to the address of a mirror of the Hub, or HTTPS_PROXY to that of your proxy.",
        ),
    ]


def _access() -> list[Topic]:
    return [
        topic(
            "gated",
            "what a gated model is, access denied, how to accept a model's licence",
            ("accept", "token"),
            "A gated model is given only to accounts that accepted its licence: open its page on the Hub, "
            "accept, and give MLXR your token.",
        ),
        topic(
            "hub_token",
            "how to give MLXR a Hugging Face token, where it is kept",
            ("key", "keychain"),
            "Click the key on the Models page and paste your token: it is kept in the system's keychain, in "
            "no file and no log.",
        ),
        topic(
            "network_use",
            "what MLXR sends over the network, what the Hub learns when one searches or downloads",
            ("no message", "Hub", "when you"),
            "MLXR asks the Hugging Face Hub only when you search, download or look for an update there; no "
            "message leaves your machine.",
        ),
    ]


def _library(f: Facts) -> list[Topic]:
    return [
        topic(
            "where_models",
            "where downloaded models lie on disk",
            ("Hugging Face cache", r"\.cache/huggingface"),
            "Downloaded models lie in the Hugging Face cache, ~/.cache/huggingface unless HF_HOME says "
            "otherwise.",
        ),
        topic(
            "other_apps",
            "whether models of LM Studio, Ollama or other apps can be used",
            ("LM Studio", "Ollama", "by itself"),
            "MLXR finds models of LM Studio, Ollama and the Hugging Face cache by itself and opens them "
            "where they lie.",
        ),
        topic(
            "not_listed",
            "why a model is not in the list, cannot be run or is left out",
            (r"mlxr models --all",),
            "Show them, under the list on the Models page, tells what is not whole and why; `mlxr models "
            "--all` also lists what cannot be run here.",
        ),
        topic(
            "idle_unload",
            "why a model left memory or rests, how long an unused model stays loaded",
            (f"{f.unload_minutes} minutes", "loaded again"),
            f"A model that nobody uses leaves memory after {f.unload_minutes} minutes, or as the settings "
            "say, and is loaded again when you write.",
        ),
        topic(
            "model_settings",
            "how to give one model settings of its own: context, system prompt, sampling, KV cache",
            ("menu", r"mlxr models --set"),
            "Right-click the model on the Models page and choose Settings in its menu, or use `mlxr models "
            "--set NAME KEY=VALUE`: they hold for this model alone.",
        ),
        topic(
            "update_model",
            "how to look for a newer version of a model",
            ("Look for an update",),
            "Right-click the model on the Models page and choose Look for an update: only files that changed "
            "are downloaded.",
        ),
        topic(
            "favourite",
            "how to mark a model as a favourite, put it in front of the list",
            ("Favourite", "front"),
            "Right-click the model on the Models page and choose Favourite: it then stands in front.",
        ),
    ]
