"""How relevant each source position is: scores, alignment, context."""
