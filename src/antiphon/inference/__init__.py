"""Answers of a trained or exported model to texts or files."""
