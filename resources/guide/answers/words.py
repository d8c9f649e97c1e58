"""What the guide says when asked what a word means."""

from __future__ import annotations

from resources.guide.facts import Facts
from resources.guide.topic import Topic, topic


def topics(f: Facts) -> list[Topic]:
    """Topics about the words of the field, as MLXR uses them."""
    return [*_memory(f), *_speed(f), *_model_words(f)]


def _memory(f: Facts) -> list[Topic]:
    size = f"{f.page_size} tokens"
    new_chat = f.shortcuts["new_chat"].replace("+", r"\+")
    return [
        topic(
            "page",
            "what a page is, what pages in the status line mean",
            ("KV cache", size),
            f"A page is a block of the KV cache that holds {size}; a chat takes as many pages as it needs.",
        ),
        topic("page_size", "how many tokens fit in a page", size, f"A page holds {size}."),
        topic(
            "kv_cache",
            "what the KV cache is",
            ("keys and values", "again"),
            "The KV cache holds the keys and values of tokens already read, so the model need not read them "
            "again.",
        ),
        topic(
            "context",
            "what the context or context window is",
            ("tokens", "prompt and answer"),
            "The context is all the tokens a model sees at once, prompt and answer together; the status "
            "line counts "
            "them.",
        ),
        topic(
            "context_full",
            "what happens when the context is full or a chat gets too long",
            ("stops", new_chat),
            f"When the context is full the answer stops. Start a new chat with {f.key('new_chat')}.",
        ),
        topic(
            "arena",
            "how much memory chats may take, what happens when pages run out",
            ("budget", "refused"),
            "All pages together have a memory budget. A message that does not fit is refused, with ways out "
            "to choose from; nothing crashes.",
        ),
        topic(
            "ways_out",
            "what the buttons under a refused message are, what to do when memory refuses a message",
            ("shorten", "fewer answers"),
            "The buttons under a refusal are ways out: shorten the message, take fewer answers, free another "
            "chat's memory or use fewer bits.",
        ),
        topic(
            "cached",
            "what cached tokens are, whether a chat is read again for each message",
            ("cached", "only what is new"),
            "Cached tokens are already read. A next message, an edit or a branch reads only what is new.",
        ),
        topic(
            "cache_line",
            "what is said while one types, such as 8,112 of 8,140 tokens cached, about 0.2 s",
            ("before you send", "first word"),
            "The status line says before you send how many tokens are cached, and how long the first word "
            "takes.",
        ),
        topic(
            "ssd_cache",
            "what is kept on SSD so that chats reopen at once, how to switch the disk cache off",
            (f.cache_folder, "settings"),
            f"Pages also go to disk, to {f.cache_folder} in the data folder, so that old chats reopen at "
            f"once; the settings can switch that off.",
        ),
        topic(
            "kv_bits",
            "how to keep the KV cache in 8 or 4 bits, to save memory",
            ("KV cache", "8 or 4 bits", "settings"),
            "In the settings the KV cache can take 8 or 4 bits: less memory, and slightly different answers.",
        ),
    ]


def _speed(f: Facts) -> list[Topic]:
    return [
        topic(
            "prefill",
            "what prefill is",
            ("reading your prompt", "before"),
            "Prefill is the model reading your prompt, before it writes the first word.",
        ),
        topic(
            "prefill_chunk",
            "how big a prefill step is, why a prompt is read in chunks",
            (f"{f.prefill_chunk} tokens",),
            f"A prompt is read in chunks of at most {f.prefill_chunk} tokens, so that you can stop "
            "in between.",
        ),
        topic(
            "decode",
            "what decode is",
            ("one token at a time", "writing"),
            "Decode is the model writing its answer, one token at a time.",
        ),
        topic(
            "tok_s",
            "what tok/s means, what is a good speed",
            ("tokens per second",),
            "tok/s is tokens per second: how fast the model writes. Ten or more is faster than most people "
            "read.",
        ),
        topic(
            "ttft",
            "what time to first token is, why it waits before the first word",
            ("first token", "prefill"),
            "Time to first token is the wait between sending and the first word; nearly all of it is "
            "prefill, so "
            "long prompts wait longer.",
        ),
        topic(
            "slow",
            "why it is slow, how to make it faster",
            ("smaller", "4-bit"),
            "Speed depends on the model's size: use a smaller or a 4-bit model, and a shorter chat. "
            "`mlxr bench` measures it.",
        ),
        topic(
            "measure_speed",
            "how to measure speed or benchmark",
            "mlxr bench",
            "Run `mlxr bench`: it measures how fast this machine reads prompts and writes answers.",
        ),
        topic(
            "speculation",
            "what guessing ahead or speculative decoding is, whether MLXR does it",
            ("guesses", "same"),
            "MLXR guesses the next tokens and checks several in one step: text that repeats is written "
            "faster, and stays the same.",
        ),
        topic(
            "draft_model",
            "what a draft model is, what --draft-model does",
            ("--draft-model", "guess"),
            "`--draft-model` names a smaller model with the same vocabulary that guesses ahead; the answer "
            "stays the same.",
        ),
        topic(
            "kernel",
            "what a kernel is, whether MLXR has its own GPU code",
            ("small program", "mlxr kernels"),
            "A kernel is a small program for the GPU. MLXR uses its own where they are right and faster: "
            "`mlxr kernels` shows them.",
        ),
        topic(
            "status_line",
            "what the status line shows",
            ("tok/s", "pages"),
            "The status line shows the model, its speed in tok/s, the tokens in context and the pages used.",
        ),
    ]


def _model_words(f: Facts) -> list[Topic]:
    return [
        topic(
            "token",
            "what a token is",
            ("piece of", "word"),
            "A token is a piece of text, often part of a word: models read and write tokens.",
        ),
        topic(
            "parameters",
            "what parameters or weights are, what 7B means",
            ("numbers", "billion"),
            "Parameters, or weights, are the numbers a model learnt; 7B means seven billion of them.",
        ),
        topic(
            "tokenizer",
            "what a tokenizer is",
            ("tokens", "splits"),
            "The tokenizer splits text into tokens and joins tokens to text again; it comes with the model.",
        ),
        topic(
            "chat_template",
            "what a chat template is",
            ("who said what",),
            "A chat template is the pattern, shipped with a model, that marks who said what.",
        ),
        topic(
            "system_prompt",
            "what a system prompt is, how to set it",
            ("--system",),
            "A system prompt tells the model how to behave, before the chat begins: write it in the model's "
            "settings on the Models page, or `mlxr chat --system TEXT`.",
        ),
        topic(
            "language_model",
            "what a language model (LLM) is, how it works",
            ("next token",),
            "A language model is a program that learnt from text to guess the next token, again and again.",
        ),
        topic(
            "engine",
            "what the engine or inference is",
            ("runs the model",),
            "The engine is the part of MLXR that runs the model; running it is called inference.",
        ),
    ]
