"""Speculation: tokens guessed ahead, checked in one step, and kept only where plain decoding agrees."""
