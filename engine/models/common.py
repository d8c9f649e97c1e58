"""What the configs of all dense families have in common."""

from __future__ import annotations

from engine.errors import ModelError
from engine.loading.config import LONGEST_CONTEXT, ConfigReader, DecoderConfig, read_rope
from engine.loading.quantization import read_quantization


def dense_decoder(
    config: ConfigReader,
    family: str,
    *,
    windows: tuple[int | None, ...] | None = None,
    tied_default: bool = False,
    attention_bias: bool = False,
    output_bias: bool = False,
    mlp_bias: bool = False,
    qk_norm: bool = False,
    default_theta: float = 10000.0,
) -> DecoderConfig:
    """A DecoderConfig from Hugging Face's usual field names and the family's own choices.

    `windows` None means full attention in every layer. Raises ModelError naming a wrong field.
    """
    hidden = config.integer("hidden_size")
    layers = config.integer("num_hidden_layers", most=1000)
    heads, kv_heads, head_dim = _heads(config, hidden)
    activation = config.raw.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise ModelError(f"config.json: hidden_act {activation!r:.80} is not supported for {family}; silu is")
    context = config.integer("max_position_embeddings", 2048, most=LONGEST_CONTEXT)
    return DecoderConfig(
        family=family,
        hidden_size=hidden,
        intermediate_size=config.integer("intermediate_size"),
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=config.integer("vocab_size"),
        context_length=context,
        norm_eps=config.number("rms_norm_eps", 1e-6),
        rope=read_rope(config, context, default_theta),
        windows=windows or (None,) * layers,
        tied_embeddings=config.flag("tie_word_embeddings", tied_default),
        attention_bias=attention_bias,
        output_bias=output_bias,
        mlp_bias=mlp_bias,
        qk_norm=qk_norm,
        quantization=read_quantization(config.raw),
    )


def layer_windows(
    config: ConfigReader, window: int | None, first_windowed: int = 0
) -> tuple[int | None, ...]:
    """Each layer's window: by `layer_types` where they are listed, else from layer `first_windowed` on."""
    layers = config.integer("num_hidden_layers", most=1000)
    kinds = config.raw.get("layer_types")
    if window is None:
        return (None,) * layers
    if isinstance(kinds, list):
        listed = [str(kind) for kind in kinds]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if len(listed) != layers or not set(listed) <= {"full_attention", "sliding_attention"}:
            raise config.wrong("layer_types", listed, f"{layers} times full_attention or sliding_attention")
        return tuple(window if kind == "sliding_attention" else None for kind in listed)
    return tuple(window if layer >= first_windowed else None for layer in range(layers))


def _heads(config: ConfigReader, hidden: int) -> tuple[int, int, int]:
    """Query heads, key/value heads and the size of a head."""
    heads = config.integer("num_attention_heads", most=4096)
    kv_heads = config.integer("num_key_value_heads", heads, most=4096)
    if heads % kv_heads:
        raise config.wrong("num_key_value_heads", kv_heads, f"a divisor of num_attention_heads ({heads})")
    if not config.has("head_dim") and hidden % heads:
        raise config.wrong("hidden_size", hidden, f"a multiple of num_attention_heads ({heads})")
    head_dim = config.integer("head_dim", max(1, hidden // heads), most=4096)
    if head_dim % 2:
        raise config.wrong("head_dim", head_dim, "even")
    return heads, kv_heads, head_dim
