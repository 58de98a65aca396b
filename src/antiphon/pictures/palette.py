"""The few colours of all pictures."""

from __future__ import annotations

from matplotlib.colors import LinearSegmentedColormap

__all__ = ["ACCENT", "HEAT", "INK", "LINE", "QUIET", "SIGNED"]

INK = "#1b2430"
QUIET = "#6b7683"
LINE = "#e3e8ee"  # between cells
ACCENT = "#1f6fb2"
HEAT = LinearSegmentedColormap.from_list("antiphon", ["#ffffff", "#cfe3f1", "#7fb5d8", "#2f7eb6", "#123f6b"])
SIGNED = LinearSegmentedColormap.from_list(  # below 0, 0, above 0
    "antiphon-signed", ["#8f3b1b", "#d9622b", "#f3c5ac", "#ffffff", "#b5d3e8", "#2f7eb6", "#123f6b"]
)
