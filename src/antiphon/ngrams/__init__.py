"""Side models counted from the training pairs: joint n-grams and shortlists."""
