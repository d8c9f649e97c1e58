"""Conversations on disk: SQLite, written by one worker thread."""
