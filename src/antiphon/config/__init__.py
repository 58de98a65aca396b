"""What a run is: typed, complete, explained."""
