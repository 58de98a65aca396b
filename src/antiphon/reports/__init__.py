"""The report and the model card of a run."""
