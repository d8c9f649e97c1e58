"""Every error the engine raises on purpose, drawn as one tree.

    EngineError
    ├── ModelError            a model cannot be loaded: what is wrong with which file
    │   └── TokenizerError    its tokenizer or chat template cannot be used
    ├── InvalidRequest        a request asks for something impossible; the caller can mend it
    │   ├── PromptTooLong     prompt and answer do not fit the context or the page budget
    │   └── NoModel           nothing is loaded
    └── NonFiniteLogits       the model produced NaN or infinity

Messages are one line for people: what, where, and what to do.
"""

from __future__ import annotations


class EngineError(Exception):
    """Base of all deliberate engine errors; its text is one line fit to show to a person."""


class ModelError(EngineError):
    """A model's files cannot be loaded."""


class TokenizerError(ModelError):
    """A tokenizer or chat template is missing, broken or does not match the model."""


class InvalidRequest(EngineError):
    """A request that cannot be served as asked."""


class PromptTooLong(InvalidRequest):
    """The prompt does not fit the model's context or the page budget."""


class NoModel(InvalidRequest):
    """A request came while no model was loaded."""


class NonFiniteLogits(EngineError):
    """The model produced NaN or infinite logits."""
