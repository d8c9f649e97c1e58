"""What a model takes of the machine's memory beside others: by its headers, and once it is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.commands import LoadModel
from engine.events.cache import ChatMemory
from engine.fitting.fit import Tenant, check_weights, resident_tokens
from engine.fitting.inspection import summary_of
from engine.loading.files import ModelFiles
from engine.machine.machine import memory_bytes
from engine.residents.opening import own_settings
from engine.serving import Serving
from engine.settings import EngineSettings


def tenant_at(command: LoadModel, files: ModelFiles, settings: EngineSettings) -> Tenant:
    """What a model is going to take, which was opened.

    Raises EngineError for one that cannot be loaded, as far as its headers tell, even with no other beside.
    """
    own = own_settings(command, settings)
    summary = summary_of(files, own.kv_bits)
    check_weights(summary.name, summary.weight_bytes, memory_bytes())
    context = min(own.context or summary.context_length, summary.context_length)
    resident = resident_tokens(context, summary.largest_window, own)
    return Tenant(
        weight_bytes=summary.weight_bytes,
        page_bytes=summary.kv_bytes_per_token * own.page_size,
        needed_pages=-(-resident // own.page_size),
    )


def tenant_of(serving: Serving) -> Tenant:
    """What a model in memory takes; its arena can be made smaller only while nobody needs what is in it."""
    model = serving.model
    return Tenant(
        weight_bytes=model.info.weight_bytes,
        page_bytes=model.arena.page_bytes,
        needed_pages=model.pager.pages_for(model.most_resident),
        held_pages=model.arena.pages if serving.busy or serving.chats.holds_pinned else 0,
    )


def chats_of_all(told: Iterable[Mapping[str, ChatMemory]]) -> Mapping[str, ChatMemory]:
    """Where chats' pages lie, over all models."""
    chats: dict[str, ChatMemory] = {}
    for of_one in told:
        for chat, here in of_one.items():
            other = chats.get(chat, ChatMemory(0, 0, 0))
            chats[chat] = ChatMemory(
                here.memory_bytes + other.memory_bytes,
                here.ssd_bytes + other.ssd_bytes,
                here.shared_bytes + other.shared_bytes,
            )
    return chats
