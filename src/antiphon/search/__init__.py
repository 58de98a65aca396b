"""Search over a step function: greedy, beam, sampling. It knows no model."""
