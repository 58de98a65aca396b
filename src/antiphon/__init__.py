"""Antiphon learns to turn one sequence into another."""

__version__ = "0.1.0"
