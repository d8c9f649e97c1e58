"""What the guide says about models: getting, opening and choosing them."""

from __future__ import annotations

from resources.guide.facts import Facts
from resources.guide.topic import Topic, topic


def topics(f: Facts) -> list[Topic]:
    """Topics about models."""
    return [*_getting(f), *_kinds(f)]


def _getting(f: Facts) -> list[Topic]:
    key = f.key("open_model")
    key_pattern = f.shortcuts["open_model"].replace("+", r"\+")
    return [
        topic(
            "open_model",
            "how to open or load a model",
            (key_pattern, "folder"),
            f"Press {key} and choose the model's folder, or drag the folder onto the window.",
        ),
        topic(
            "get_model",
            "where to get or download models, can MLXR download them",
            ("Hugging Face", "hf download"),
            "MLXR does not download models yet: get one from Hugging Face with `hf download`, then open its "
            "folder "
            f"with {key}.",
        ),
        topic(
            "which_model",
            "which model to choose or is recommended",
            ("4-bit", "Qwen3"),
            "A good start is a 4-bit Qwen3 or Llama model of 4 to 8 billion parameters; more memory allows "
            "a bigger "
            "one.",
        ),
        topic(
            "switch_model",
            "how to change to another model; two models at once",
            ("one model at a time", key_pattern),
            f"Press {key} and choose another folder. MLXR holds one model at a time, so the old one is "
            f"freed.",
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
            "Add `--model FOLDER` to the command, such as `mlxr --model ~/models/qwen`.",
        ),
        topic(
            "repo_id",
            "whether a Hugging Face repo id or name works instead of a folder",
            ("repo id", "cache"),
            "Yes, `--model` takes a Hugging Face repo id when that model is already in the Hugging Face "
            "cache.",
        ),
        topic(
            "free_memory",
            "how to unload a model or free memory",
            ("freed", "guide"),
            "Open me, the guide, instead of the big model: its memory is freed at once. Quitting frees it "
            "as well.",
        ),
        topic(
            "fine_tune",
            "whether MLXR can train or fine-tune models",
            ("only runs models",),
            "No, MLXR only runs models: it does not train or fine-tune them.",
        ),
    ]


def _kinds(f: Facts) -> list[Topic]:
    families = f.families_text
    return [
        topic(
            "families",
            "which model families or architectures are supported",
            f.families,
            f"MLXR runs the {families} families, from safetensors folders.",
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
            "Safetensors is a safe file format for weights. MLXR reads it, in one file or in several shards.",
        ),
        topic(
            "gguf",
            "whether GGUF files work",
            ("GGUF", "not yet"),
            "GGUF files are not yet supported: use the same model as a safetensors folder.",
        ),
        topic(
            "model_folder",
            "which files a model folder must contain",
            (r"config\.json", "tokenizer"),
            "A model folder holds config.json, the weights as .safetensors files, and a tokenizer: "
            "tokenizer.json "
            "or tokenizer.model.",
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
