"""`antiphon init`: a configuration for data nobody has described."""
