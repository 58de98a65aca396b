"""Pictures: attention, learning curves, the terminal."""
