"""How an answer is searched for, with any step function."""
