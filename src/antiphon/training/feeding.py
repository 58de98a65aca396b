"""What a run learns from, batch by batch, and the state that a stream carries on."""

from __future__ import annotations

from torch import Tensor

from antiphon.config.schema import Config, DataConfig
from antiphon.decoders.plain import PlainState
from antiphon.sources.ahead import AheadBatches
from antiphon.sources.corpus import Prepared
from antiphon.sources.feed import Batches, PairBatches, StreamBatches
from antiphon.sources.noise import noise_of
from antiphon.sources.readers import is_file
from antiphon.sources.streams import line_end
from antiphon.sources.tokens import Tokenizer

__all__ = ["batches_of", "carried_state", "introduction"]


def batches_of(config: Config, prepared: Prepared) -> Batches:
    """Pairs or lines, or windows of a stream; a recurrent network carries its state from window to window."""
    training, window = config.training, config.data.window
    if window is None:
        noise = noise_of(training.noise, prepared.source, seed=training.seed)
        pairs = PairBatches(prepared.train, budget=training.batch_tokens, seed=training.seed, noise=noise)
        return AheadBatches(pairs) if any(map(is_file, config.data.sources)) else pairs
    return StreamBatches.of(
        prepared.train.target.ids,
        window=window,
        budget=training.batch_tokens,
        start=line_end(prepared.target_tokenizer),
        seed=training.seed,
        carries=config.model.decoder.kind == "plain",
    )


def introduction(data: DataConfig, prepared: Prepared) -> str:
    """What there is to learn from, in a sentence."""
    train, dev, size = prepared.train, len(prepared.dev), prepared.target_tokenizer.size
    if data.window is not None:
        return f"a stream of {len(train.target.ids):,} training tokens, {dev:,} dev lines, {size:,} different tokens"
    if data.source is None:
        return f"{len(train):,} training texts, {dev:,} dev texts, {size:,} different tokens"
    if not isinstance(prepared.source, Tokenizer):
        kinds = " + ".join(source.kind for source in data.sources)
        return f"{len(train):,} training pairs, {dev:,} dev sources, {kinds} → {size:,} tokens"
    sizes = f"{prepared.source.size:,} → {size:,} tokens"
    return f"{len(train):,} training pairs, {dev:,} dev sources, {sizes}"


def carried_state(tensors: dict[str, Tensor]) -> PlainState | None:
    """The state that a checkpoint holds; none at the start of an epoch, or if nothing is carried."""
    return PlainState.of(tensors) if tensors else None
