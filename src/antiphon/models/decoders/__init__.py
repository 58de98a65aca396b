"""Decoders: start(memory) gives a state, forward(tokens, state) a Step."""
