"""Every request an engine has answered, on disk: SQLite, written by one worker thread, read for charts."""
