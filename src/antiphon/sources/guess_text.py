"""A language model for a plain text that nobody has described."""

from __future__ import annotations

import math

from antiphon.config.models import LanguageModelConfig, PlainConfig
from antiphon.config.schema import Config, DataConfig, DecodingConfig, EvaluationConfig, TrainingConfig
from antiphon.sources.amounts import amount
from antiphon.sources.sides import Cut, Side, between, cut, round_up, vocabulary

__all__ = ["text_config"]

WINDOW = 128
LETTERS = 5_000_000  # so many letters and more teach sub-words; fewer only characters


def text_config(data: DataConfig, side: Side, total: int, reasons: list[str]) -> Config:
    """Short strings are learnt line by line, running text as one stream of characters or, if long, of sub-words."""
    found = cut(side)
    letters = round(side.mean_letters * total)
    if found.tokens == "bpe":
        data, tokens = stream_section(data, side, letters, total, reasons)
    else:
        data, tokens = line_section(data, found, total, reasons)
    training = training_section(data, tokens, reasons)
    longest = 300 if data.window else between(20, 2 * found.longest, 500)
    what = "some lines" if data.window else f"twice the longest line seen ({found.longest}), 20 to 500"
    reasons.append(f"decoding.max_length {longest}: {what}")
    return Config(
        data=data,
        model=model_section(data, letters, reasons),
        training=training,
        decoding=DecodingConfig(beam=1, max_length=longest),
        evaluation=EvaluationConfig(metrics=["perplexity", "bits_per_character"]),
    )


def stream_section(
    data: DataConfig, side: Side, letters: int, total: int, reasons: list[str]
) -> tuple[DataConfig, float]:
    """Running text, and how many tokens it has."""
    few = letters < LETTERS
    reason = f"about {letters:,} letters, {'too few for' if few else 'enough for'} sub-words"
    target = data.target.model_copy(
        update={"tokens": "characters"} if few else {"tokens": "bpe", "vocabulary": vocabulary("bpe", total)}
    )
    reasons.append(f"data.target.tokens {target.tokens}: {reason}")
    reasons.append(
        f"data.window {WINDOW}: running text ({side.mean_words:.0f} words a line on average), learnt as one stream; "
        "null learns it line by line"
    )
    return data.model_copy(update={"target": target, "window": WINDOW}), letters if few else letters / 4


def line_section(data: DataConfig, found: Cut, total: int, reasons: list[str]) -> tuple[DataConfig, float]:
    """Short strings, and how many tokens they have."""
    longest = between(20, round_up(1.5 * found.longest, 10), 400)
    target = data.target.model_copy(update={"tokens": found.tokens, "max_length": longest})
    reasons.append(f"data.target.tokens {found.tokens}: {found.reason}")
    reasons.append(f"data.target.max_length {longest}: the longest seen has {found.longest} tokens")
    reasons.append("data.window null: each line is a text of its own")
    return data.model_copy(update={"target": target}), total * (found.mean + 1)


def model_section(data: DataConfig, letters: int, reasons: list[str]) -> LanguageModelConfig:
    """As large as the text can fill."""
    size = next((size for limit, size in ((100_000, 128), (2_000_000, 256)) if letters < limit), 512)
    embedding = size if data.target.tokens == "bpe" else max(32, size // 4)
    dropout = 0.3 if letters < 2_000_000 else 0.1
    reasons.append(f"model size {size}, embeddings {embedding}, dropout {dropout}: for about {letters:,} letters")
    return LanguageModelConfig(decoder=PlainConfig(cell="lstm", embedding=embedding, size=size, dropout=dropout))


def training_section(data: DataConfig, tokens: float, reasons: list[str]) -> TrainingConfig:
    """Batches so that an epoch has some dozens of updates, epochs for some thousands of them."""
    least = data.window or 256
    batch = between(least, 2 ** round(math.log2(max(1.0, tokens / 200))), 4096)
    updates = max(1, math.ceil(tokens / batch))
    epochs = between(5, math.ceil(5_000 / updates), 50)
    reasons.append(f"training.batch_tokens {batch}: about {amount(updates, 'updates')} an epoch")
    reasons.append(f"training.epochs {epochs}, patience 4: it stops when the loss has not got better 4 times")
    reasons.append("training.metric loss: a language model has no answers to compare")
    return TrainingConfig(
        batch_tokens=batch, epochs=epochs, warmup=between(50, updates, 400), learning_rate=2e-3, patience=4
    )
