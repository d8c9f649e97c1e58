"""How prompts share steps with running answers: how many tokens, how many layers, which way."""
