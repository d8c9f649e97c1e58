"""One request from its command to its end."""
