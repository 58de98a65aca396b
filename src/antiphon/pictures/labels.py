"""How a metric is written beside a picture."""

from __future__ import annotations

__all__ = ["metric_label"]

_METRICS = {
    "loss": "loss (nats per token)",
    "dev_loss": "loss (nats per token)",
    "perplexity": "perplexity",
    "exact_match": "exact match (%)",
    "token_accuracy": "token accuracy (%)",
    "cer": "character error rate (%)",
    "wer": "word error rate (%)",
    "per": "phoneme error rate (%)",
    "bleu": "BLEU",
    "bleu_1": "BLEU-1",
    "bleu_2": "BLEU-2",
    "bleu_3": "BLEU-3",
    "chrf": "chrF",
    "ter": "TER",
    "rouge_1": "ROUGE-1",
    "rouge_2": "ROUGE-2",
    "rouge_l": "ROUGE-L",
}


def metric_label(name: str) -> str:
    """`per` → `phoneme error rate (%)`; an unknown name is its own label."""
    return _METRICS.get(name, name.replace("_", " "))
