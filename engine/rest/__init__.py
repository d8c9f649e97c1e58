"""What the engine does while nobody asks: tidying, compiling ahead, forgetting."""
