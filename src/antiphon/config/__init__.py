"""The configuration of a run: typed, complete, explained."""
