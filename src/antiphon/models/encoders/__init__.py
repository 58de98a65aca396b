"""Encoders turn a Sequence into a Memory."""
