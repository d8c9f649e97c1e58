"""Drawing next tokens from logits, on a device or on the host."""
