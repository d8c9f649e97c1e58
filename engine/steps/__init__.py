"""One step of the model: what goes into it, how it is sent, what its results mean."""
