"""The keys of training: optimizer, schedule, noise and regularisation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from antiphon.config.sections import Natural, OrRegistered, Positive, Section, Share, usual_kind

__all__ = [
    "AdamConfig",
    "GuidedAttentionConfig",
    "InfillConfig",
    "Metric",
    "NoiseConfig",
    "PlateauConfig",
    "SGDConfig",
    "ScheduleConfig",
    "ScheduledSamplingConfig",
    "TrainingConfig",
]

Metric = Literal[
    "loss",
    "perplexity",
    "word_perplexity",
    "bits_per_character",
    "exact_match",
    "token_accuracy",
    "cer",
    "wer",
    "per",
    "bleu",
    "bleu_1",
    "bleu_2",
    "bleu_3",
    "chrf",
    "ter",
    "rouge_1",
    "rouge_2",
    "rouge_l",
]
OPTIMIZERS = "adamw | adam | sgd"
DECAY = "weight decay: decoupled in adamw, L2 regularisation in adam and sgd"
SCHEDULES = "constant | inverse-sqrt | cosine | plateau"
WARMUP = "updates over which the learning rate rises from 0 to its maximum"


class AdamConfig(Section):
    """Adam, or AdamW with decoupled weight decay."""

    kind: Literal["adamw", "adam"] = Field("adamw", description=OPTIMIZERS)
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(0.0, description=DECAY)


class SGDConfig(Section):
    """Stochastic gradient descent."""

    kind: Literal["sgd"] = Field("sgd", description=OPTIMIZERS)
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(0.0, description=DECAY)
    momentum: Share = Field(0.0, description="momentum; 0: none")


class ScheduleConfig(Section):
    """A schedule that depends on the number of the update alone."""

    kind: Literal["inverse-sqrt", "cosine", "constant"] = Field("inverse-sqrt", description=SCHEDULES)
    warmup: Natural = Field(400, description=WARMUP)


class PlateauConfig(Section):
    """The learning rate falls when the metric no longer improves."""

    kind: Literal["plateau"] = Field("plateau", description=SCHEDULES)
    warmup: Natural = Field(400, description=WARMUP)
    factor: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(0.5, description="the learning rate is multiplied by this")
    patience: Positive = Field(2, description="after this many evaluations without a better metric")


Optimizer = Annotated[AdamConfig | SGDConfig, Field(discriminator="kind"), usual_kind("adamw")]
Schedule = Annotated[ScheduleConfig | PlateauConfig, Field(discriminator="kind"), usual_kind("inverse-sqrt")]


class GuidedAttentionConfig(Section):
    """Guided attention: attention far from the diagonal costs, for sources in the order of the target."""

    weight: Annotated[float, Field(gt=0.0)] = Field(description="weight of the guided attention loss")
    width: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        0.2, description="distance from the diagonal that costs little, as a share of the source"
    )


class ScheduledSamplingConfig(Section):
    """Scheduled sampling: some decoder inputs are the model's own predictions."""

    probability: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        description="highest probability that an input is the model's own prediction"
    )
    schedule: Literal["linear", "exponential", "inverse-sigmoid"] = Field(
        "linear", description="how the probability rises from 0: linear | exponential | inverse-sigmoid"
    )
    updates: Positive | None = Field(None, description="updates until it is reached; null: all of them")


NUMBER_IS_SHARE = lambda value: ({"share": value} if value else None) if type(value) in (int, float) else value  # noqa: E731


class InfillConfig(Section):
    """Text infilling: spans of tokens are replaced by one <unk> each."""

    share: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(description="share of source tokens inside the spans")
    span: Annotated[float, Field(gt=0.0)] = Field(3.0, description="mean length of a span (Poisson)")


class NoiseConfig(Section):
    """Denoising as a pretext task: the source is corrupted anew in every epoch, the target is not."""

    mask: Share = Field(0.0, description="share of source tokens that become <unk>")
    delete: Share = Field(0.0, description="share of source tokens that are deleted")
    infill: Annotated[InfillConfig | None, BeforeValidator(NUMBER_IS_SHARE)] = Field(
        None, description="spans of source tokens become one <unk> each: a share, or {share, span}; null: none"
    )
    permute: bool = Field(False, description="shuffle the sentences of a source (each ends with . ! or ?)")

    @property
    def enabled(self) -> bool:
        """True if there is any noise."""
        return bool(self.mask or self.delete or self.infill or self.permute)


class TrainingConfig(Section):
    """Optimisation: batches, optimizer, schedule, stopping."""

    epochs: Positive = Field(20, description="maximum number of passes over the training data")
    max_updates: Positive | None = Field(None, description="maximum number of updates; null: epochs decide")
    batch_tokens: Positive = Field(4096, description="size of a batch: rows x the longer side, padding included")
    accumulate: Positive = Field(1, description="batches whose gradients are accumulated for one update")
    optimizer: Optimizer = Field(default_factory=AdamConfig, description=OPTIMIZERS)
    learning_rate: Annotated[float, Field(gt=0.0)] = Field(1e-3, description="maximum learning rate")
    schedule: Schedule = Field(default_factory=ScheduleConfig, description=f"learning rate schedule: {SCHEDULES}")
    clip: Annotated[float, Field(gt=0.0)] | None = Field(1.0, description="maximum gradient norm; null: no clipping")
    label_smoothing: Share = Field(0.0, description="probability that the loss spreads evenly over all tokens")
    guided_attention: GuidedAttentionConfig | None = Field(
        None, description="loss for attention off the diagonal (a line of print, speech): {weight, width}; null: none"
    )
    metric: Annotated[Metric, OrRegistered("metric")] = Field(
        "loss", description="chooses the best weights, on dev: loss, exact_match, per, bleu, ..."
    )
    evaluate_every: Positive | None = Field(None, description="updates between evaluations; null: after each epoch")
    checkpoint_every: Positive | None = Field(
        None, description="updates between checkpoints; null: only at evaluations"
    )
    patience: Positive | None = Field(
        None, description="early stopping: after this many evaluations without a better metric; null: never"
    )
    dev_examples: Positive = Field(500, description="dev examples decoded at each evaluation (the loss takes all)")
    keep: Positive = Field(2, description="checkpoints kept beside the best")
    average: Positive = Field(1, description="average the weights of the last n evaluations, if that is better")
    bad_updates: Positive = Field(5, description="stop after this many updates in a row whose loss is NaN or infinite")
    noise: NoiseConfig = Field(default_factory=NoiseConfig, description="denoising: how the source is corrupted")
    scheduled_sampling: ScheduledSamplingConfig | None = Field(
        None, description="feed the model its own predictions: {probability, schedule, updates}; null: teacher forcing"
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(1, description="the same seed gives the same weights")
    threads: Positive | None = Field(None, description="CPU threads; null: one for each core")
