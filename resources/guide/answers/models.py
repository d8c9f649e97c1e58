"""What the guide says about models: getting, opening and choosing them."""

from __future__ import annotations

from resources.guide.answers.window import keys
from resources.guide.facts import Facts
from resources.guide.topic import Topic, topic


def topics(f: Facts) -> list[Topic]:
    """Topics about models."""
    return [*_getting(f), *_library(), *_kinds(f)]


def _library() -> list[Topic]:
    return [
        topic(
            "pull",
            "what mlxr pull does, the command that downloads a model",
            ("mlxr pull", "Hugging Face cache"),
            "`mlxr pull REPO` downloads a model from Hugging Face into the Hugging Face cache, which other "
            "tools share.",
        ),
        topic(
            "pause_download",
            "how to pause or resume a download, what if it breaks off",
            ("Ctrl-C", "where it stopped"),
            "Pause it with the button beside it, or `mlxr pull` with Ctrl-C; it goes on where it stopped, "
            "also after a crash or a restart.",
        ),
        topic(
            "verified_download",
            "whether downloads are checked, how to know that a download is complete",
            ("SHA-256",),
            "Each file that MLXR downloads is checked by its size and checksum, SHA-256 for weights, "
            "before it counts.",
        ),
        topic(
            "pull_gguf",
            "how to download a GGUF file, one quantisation of a repository",
            (r"mlxr pull REPO:",),
            "Name the quantisation behind a colon: `mlxr pull REPO:Q4_K_M` gets only that GGUF file, all of "
            "its parts.",
        ),
        topic(
            "list_models",
            "which models one has, how to list them, what mlxr models does",
            "mlxr models",
            "`mlxr models` lists the models on this machine, with size, family and bits, and so does My "
            "models on the Models page.",
        ),
        topic(
            "rename_model",
            "how to give a model another name",
            (r"mlxr models --rename",),
            "Select it on the Models page and press F2, or use `mlxr models --rename OLD NEW`; `--model` "
            "takes the new name.",
        ),
        topic(
            "delete_model",
            "how to delete a model from disk, what mlxr rm does",
            ("mlxr rm", "Delete"),
            "Choose Delete in its menu on the Models page, or use `mlxr rm NAME`: both say how much space "
            "becomes free.",
        ),
        topic(
            "import_model",
            "how to add models already on disk to the list, what mlxr import does",
            ("mlxr import", "stay"),
            "Drop a folder or a .gguf file onto the Models page, or use `mlxr import PATH`: it is "
            "listed, and the files stay where they are.",
        ),
        topic(
            "convert",
            "how to quantise or convert a model oneself, what mlxr convert does",
            ("mlxr convert", "--quant"),
            "`mlxr convert SRC DST --quant q4` writes a Hugging Face model in 4 bits to the new folder DST.",
        ),
    ]


def _getting(f: Facts) -> list[Topic]:
    key = f.key("open_model")
    key_pattern = f.shortcuts["open_model"].replace("+", r"\+")
    return [
        topic(
            "open_model",
            "how to open or load a model",
            (key_pattern, "folder"),
            f"Press {key} and choose a model's folder or a .gguf file, or drop it onto the window.",
        ),
        topic(
            "get_model",
            "where to get or download models, can MLXR download them",
            ("Hugging Face", keys(f, "models"), "mlxr pull"),
            f"Models come from Hugging Face: press {f.key('models')}, choose one under Discover and click "
            "Download; in the terminal use `mlxr pull REPO`.",
        ),
        topic(
            "which_model",
            "which model to choose or is recommended",
            ("4-bit", "Qwen3"),
            "A good start is a 4-bit Qwen3 or Llama model of 4 to 8 billion parameters; Discover on the "
            "Models page has a short list.",
        ),
        topic(
            "switch_model",
            "how to change to another model; two models at once",
            ("both fit in memory", key_pattern),
            f"Press {key} and choose another model. Two stay loaded if both fit in memory; else the old "
            "one is freed.",
        ),
        topic(
            "last_model",
            "which model is loaded at start, is the choice remembered",
            ("last used", "guide"),
            "MLXR starts with the last used model, or with me, the guide, when there is none.",
        ),
        topic(
            "model_flag",
            "how to give the model on the command line",
            r"--model",
            "Add `--model` and a folder, a .gguf file or a name to the command: `mlxr --model "
            "~/models/qwen`.",
        ),
        topic(
            "repo_id",
            "whether a name or a Hugging Face repo id works instead of a folder",
            ("repo id", "cache"),
            "Yes, `--model` takes a name that `mlxr models` lists, and a Hugging Face repo id when that "
            "model is already in the Hugging Face cache.",
        ),
        topic(
            "free_memory",
            "how to unload a model or free memory",
            ("Unload", "freed"),
            "Click Unload beside the model on the Models page: its memory is freed at once. Quitting "
            "frees it as well.",
        ),
        topic(
            "fine_tune",
            "whether MLXR can train or fine-tune models",
            ("No", "does not train"),
            "No, MLXR does not train or fine-tune models; it opens those that were tuned elsewhere.",
        ),
    ]


def _kinds(f: Facts) -> list[Topic]:
    families = f.families_text
    key_pattern = f.shortcuts["open_model"].replace("+", r"\+")
    return [
        topic(
            "families",
            "which model families or architectures are supported",
            f.families,
            f"MLXR runs the {families} families, from safetensors folders and from GGUF files.",
        ),
        topic(
            "other_families",
            "whether Gemma, Phi, DeepSeek, gpt-oss, Falcon or such run",
            ("not yet", *f.families),
            f"Other families are not yet supported: MLXR runs {families} models.",
        ),
        topic(
            "safetensors",
            "what safetensors is, which file format is needed",
            ("safetensors", "weights"),
            "Safetensors is a safe file format for weights. MLXR reads it, in one file or in several shards, "
            "and GGUF too.",
        ),
        topic(
            "gguf",
            "whether GGUF files work",
            ("Yes", "GGUF", key_pattern),
            f"Yes, GGUF files work, split ones too: press {f.key('open_model')} and choose the file, or drop "
            "it onto the window.",
        ),
        topic(
            "gguf_or_mlx",
            "the difference between GGUF, MLX and safetensors models, which is better",
            ("one file", "folder", "both"),
            "A GGUF model is one file, made for llama.cpp; an MLX model is a folder of safetensors. MLXR "
            "runs both.",
        ),
        topic(
            "model_safety",
            "whether a downloaded model can do harm: viruses, pickled weights",
            ("safetensors", "no code"),
            "MLXR takes weights only from safetensors and GGUF files: they hold numbers and no code. Pickled "
            "weights are never downloaded or opened.",
        ),
        topic(
            "model_folder",
            "which files a model folder must contain",
            (r"config\.json", "tokenizer"),
            "A model folder holds config.json, the weights as .safetensors files, and a tokenizer: "
            "tokenizer.json or tokenizer.model. A .gguf file has all of it inside.",
        ),
        topic(
            "quantisation",
            "what quantisation is, what 4-bit or 8-bit means, does it hurt quality",
            ("fewer bits", "memory"),
            "Quantisation stores weights in fewer bits, such as 4 or 8: the model needs less memory and runs "
            "faster, and loses a little precision.",
        ),
        topic(
            "mlx_quantised",
            "whether MLX-quantised or mlx-community models work",
            ("Yes", "MLX-quantised"),
            "Yes, MLX-quantised models, such as the 4-bit ones from mlx-community, open like any other "
            "folder.",
        ),
        topic(
            "multimodal",
            "whether images, audio, video, voice or drawing work",
            "text only",
            "MLXR works with text only: no images, no sound, no video.",
        ),
        topic(
            "web_search",
            "whether MLXR or its models can search the web, use tools or read web pages",
            "no tools",
            "No, models in MLXR have no tools and cannot search the web: they answer from what they learnt.",
        ),
    ]
