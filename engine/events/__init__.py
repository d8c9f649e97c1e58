"""What the engine tells its callers: frozen values, without arrays."""
