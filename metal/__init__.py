"""Kernels: each a `.metal` body, a typed launcher and a reference twin; none knows of models or chats."""
