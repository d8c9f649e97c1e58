"""How MLXR ended last time: what a run leaves behind, the report about it, and safe mode."""
