"""The four ids that every vocabulary begins with."""

from __future__ import annotations

__all__ = ["EOS", "PAD", "SOS", "SPECIALS", "UNK"]

PAD, SOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
