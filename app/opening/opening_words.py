"""What the window says of chats as files, and of what is opened from outside."""

from __future__ import annotations

EXPORT = "Export…"
COPY_LINK = "Copy link"
LINK_COPIED = "The link to “{title}” is copied; it works on this machine"
IMPORT = "Import a chat…"
EXPORT_TITLE = "Export the chat"
IMPORT_TITLE = "Import a chat"
WHOLE = "Whole chat, for MLXR (*{suffix})"
READABLE = "Markdown, to read (*{suffix})"
CHAT_FILES = "Chats of MLXR (*{suffix})"

EXPORTED = "“{title}” is saved as {name}"
SHOW_FOLDER = "Show the folder"
IMPORTED = "“{title}” is imported"
IMPORTED_WITH_SYSTEM = "“{title}” is imported; it tells the model at its start: “{system}”"
SYSTEM_SHOWN = 120
"""Characters of what an imported chat tells the model that are shown."""

NOTHING_TO_EXPORT = "This chat has no message yet; there is nothing to export"
NOT_WRITTEN = "{path} cannot be written ({reason}); choose another folder or free some space"
IMPORT_FAILED = "“{title}” could not be stored ({reason})"
NO_SUCH_CHAT = "The chat of this link is not on this machine; chats are exported and imported as files"
