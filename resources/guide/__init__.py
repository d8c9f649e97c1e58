"""The guide: the small model built into MLXR, its text, and the recipe that trains it."""
