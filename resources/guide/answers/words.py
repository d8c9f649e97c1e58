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
            "All pages together have a fixed memory budget. A prompt that does not fit is refused with a "
            "clear "
            "line; nothing crashes.",
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
            f"A prompt is read in chunks of {f.prefill_chunk} tokens, so that you can stop in between.",
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
            "A system prompt tells the model how to behave, before the chat begins: `mlxr chat --system "
            "TEXT`.",
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
