"""`antiphon init`: a suggested configuration for unknown data."""
