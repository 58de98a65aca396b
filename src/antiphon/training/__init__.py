"""How weights are learnt, kept and reported."""
