"""The running app, as other programs of this account reach it: a local socket and what is said over it."""
