"""Text in and out of the model: tokenizers, incremental detokenizers and chat templates."""

from engine.tokenizer.chat_template import ChatTemplate
from engine.tokenizer.interface import Detokenizer, Tokenizer
from engine.tokenizer.loader import load_tokenizer

__all__ = ["ChatTemplate", "Detokenizer", "Tokenizer", "load_tokenizer"]
