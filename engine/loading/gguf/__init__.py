"""GGUF files: header, metadata and tensors, and the models they hold."""
