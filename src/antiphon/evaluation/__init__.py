"""Metrics of answers, with confidence intervals."""
