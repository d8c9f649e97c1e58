"""The repositories and accounts that the hub's own tests share."""

from __future__ import annotations

import random

from tests.hub.repos import HubFile, Repo
from tests.hub.store import Account

WEIGHTS = random.Random(1).randbytes(200_000)
MODEL = Repo(
    "org/name",
    {
        "config.json": b'{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 3}',
        "model.gguf": HubFile(WEIGHTS, lfs=True),
        "parts/a b.txt": b"small",
    },
    downloads=10,
    likes=3,
    tags=("chat",),
    card="# A model\n",
    license="mit",
    pipeline_tag="text-generation",
    gguf={"architecture": "llama", "total": 100_000},
    safetensors={"BF16": 90_000, "F32": 10_000},
)
GATED = Repo(
    "org/gated", {"weights.gguf": HubFile(b"gated", lfs=True)}, gated="manual", downloads=5, card="# Ask"
)
PRIVATE = Repo("me/own", {"x.txt": b"mine"}, private=True)
TOKENS: dict[str, Account] = {
    "hf_good": {"name": "me", "may_read": {"org/gated"}},
    "hf_other": {"name": "other", "may_read": set()},
}
