"""Whether there is a newer MLXR: one question, asked only of those who want it, and what the answer says."""
