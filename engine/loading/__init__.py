"""From a folder on disk to checked configuration and tensors."""
