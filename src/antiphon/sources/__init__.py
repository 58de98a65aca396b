"""From the world to tensors: lines, pairs, tokens, batches."""
