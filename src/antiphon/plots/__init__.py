"""Pictures: attention, search trees, learning curves, maps."""
