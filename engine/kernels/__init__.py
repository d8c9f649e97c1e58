"""The project's own kernels for a loaded model: what may run, what was measured, what was chosen."""
