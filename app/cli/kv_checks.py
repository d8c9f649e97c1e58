"""What a quantised KV cache costs a model, measured here and told in words."""

from __future__ import annotations

import json
from pathlib import Path

from app.cli.findings import Finding
from app.model_location import GUIDE
from engine import EngineError, KvLoss, Message, measure_kv_loss

HOLDS = 0.97
"""The share of next tokens that must stay the same for a cache to be as good as one that is not quantised."""

_EACH, _TURNS = 9, 9
"""Of the guide's questions every ninth is asked, nine in a chat."""


PARAGRAPH = (
    "The ferry leaves the small harbour at seven in the morning, when the fishermen are already back. "
    "Mrs Lindqvist, who has sold tickets there for thirty-one years, knows every passenger by name, and"
    " most of their dogs. In winter, she says, only three kinds of people cross: those who work on the "
    "mainland, those who are ill, and those who have forgotten to buy coffee. The crossing takes forty "
    "minutes if the wind is kind. Halfway, where the water changes from green to grey, the captain "
    "slows down for the seals; nobody has ever complained about the lost time. A return ticket costs "
    "12.50, children under six travel free, and bicycles are tied to the railing with a rope that was "
    "new in 1998. On the other side a bus is waiting. It does not leave before the ferry has come in, "
    "even when the timetable says that it should: the driver is Mrs Lindqvist's brother, and he was "
    "told so once, and once was enough."
)
"""What a model that is not the guide is measured on."""


def check_kv_loss(path: Path, bits: int) -> tuple[list[Finding], KvLoss | None]:
    """What a KV cache of `bits` bits costs the model in folder `path`; None when it cannot be measured.

    The guide is measured on its own questions and answers, another model on a paragraph of English.
    """
    area, what = "Model", "KV loss"
    try:
        texts = guide_chats() if path.resolve() == GUIDE else [PARAGRAPH]
        loss = measure_kv_loss(path, bits, texts)
    except EngineError as error:
        return [Finding(area, what, str(error), "broken")], None
    is_ = (
        f"{bits} bits keep {loss.agreement:.1%} of {loss.positions} likeliest next tokens; their "
        f"log-probability moves by {loss.mean_change:.4f} on average and {loss.largest_change:.2f} at most, "
        f"KL divergence {loss.divergence:.2g}"
    )
    if loss.agreement >= HOLDS:
        return [Finding(area, what, is_)], loss
    better = "in 8 bits, or as computed" if bits < 8 else "as computed"
    advice = f"answers will differ from what this model can do: keep the KV cache {better}"
    return [Finding(area, what, is_, "note", advice)], loss


def guide_chats() -> list[list[Message]]:
    """Chats of the guide: exam questions, each with the answer that it was trained to give."""
    # Imported here: only who measures the guide needs its text.
    from resources.guide.corpus import read_asked
    from resources.guide.facts import Facts
    from resources.guide.topics import all_topics

    facts = Facts(**json.loads((GUIDE / "guide.json").read_text("utf-8"))["facts"])
    answers = {topic.id: topic.answers[0] for topic in all_topics(facts)}
    asked = read_asked(GUIDE.parent / "heldout.jsonl")[::_EACH]
    turns = [(Message("user", each.question), Message("assistant", answers[each.topic])) for each in asked]
    return [
        [message for turn in turns[begin : begin + _TURNS] for message in turn]
        for begin in range(0, len(turns), _TURNS)
    ]
