"""Training: losses, optimizers, checkpoints, run folders."""
