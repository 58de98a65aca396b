"""Model, training, decoding and evaluation: those of a recipe or of a general guess, fitted to the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from antiphon.autoconfig.tasks import Evidence, find_task
from antiphon.autoconfig.text_profile import TokenChoice, clamp, round_up
from antiphon.config.load import read_config
from antiphon.config.networks import EncoderDecoderConfig, TaggerConfig, state_size
from antiphon.config.schema import Config, DataConfig, DecodingConfig, EvaluationConfig, Metric, TrainingConfig
from antiphon.config.yaml_text import flat, write_value
from antiphon.text import plural

__all__ = ["Amount", "explain_differences", "fit_settings", "plan_updates", "start_from"]

UPDATES_AN_EPOCH = 30  # the least, if the batches of a recipe are too large for the data
MIN_BATCH, MIN_EXAMPLES = 256, 8  # tokens, and examples in a batch
ENOUGH_UPDATES = 1_000  # a recipe with fewer of them on these data gets LEAST_UPDATES
LEAST_UPDATES, MOST_UPDATES = 2_000, 20_000  # in a run with a schedule that ends (cosine)
OPEN_UPDATES = 8_000  # in a run that early stopping ends
PATIENT_UPDATES = 2_000  # without a better metric
SHORT = 20  # characters of a target that is compared as a whole, too
# Up to this many examples, the largest size of a state.
SIZES = ((500, 64), (2_000, 128))


@dataclass(frozen=True)
class Amount:
    """The number of examples, and the mean length of one, on its longer side."""

    examples: int
    length: float

    @property
    def positions(self) -> float:
        """Tokens, or positions of files, in one epoch."""
        return self.examples * self.length


def start_from(seen: Evidence, reasons: list[str]) -> Config | None:
    """The recipe for the task that the data look like, as it is shipped; None: no task is recognised."""
    task = find_task(seen)
    if task is None:
        return None
    reasons.append(f"this looks like {task.name} ({task.reason}); starting from the recipe `{task.recipe}`")
    return read_config(task.recipe, notices=False)


def fit_settings(base: Config, data: DataConfig, amount: Amount, target: TokenChoice, reasons: list[str]) -> Config:
    """The configuration `base` with these data: its sizes, updates and metrics are fitted to them."""
    model = base.model
    assert isinstance(model, EncoderDecoderConfig | TaggerConfig)
    metrics = fit_metrics(base.evaluation.metrics, target)
    metric = fit_metrics([base.training.metric], target)[0]
    reasons.append(f"training.metric {metric}: usual for such targets ({target.tokens}); it chooses the best weights")
    training = plan_updates(base.training.model_copy(update={"metric": metric}), amount, reasons)
    return Config(
        data=data,
        model=fit_model(model, data, amount.examples, reasons),
        training=training,
        decoding=base.decoding if data.labels else fit_decoding(base.decoding, data, target, reasons),
        evaluation=EvaluationConfig(metrics=list(dict.fromkeys([*metrics, *([metric] if metric != "loss" else [])]))),
    )


def explain_differences(base: Config, config: Config, reasons: list[str]) -> None:
    """Add the keys that are not as in the recipe, with its values."""
    changed = []
    for section in ("model", "training", "decoding", "evaluation"):
        ours, theirs = (flat(getattr(one, section).model_dump(by_alias=True), f"{section}.") for one in (config, base))
        changed += [f"{key} {write_value(theirs[key])}" for key in theirs if ours.get(key) != theirs[key]]
    if changed:
        reasons.append(f"the recipe has other values of {len(changed)} keys: {', '.join(changed)}")


# Updates.


def plan_updates(training: TrainingConfig, amount: Amount, reasons: list[str]) -> TrainingConfig:
    """Batches, epochs and evaluations, so that data of any size get enough updates, and patience covers enough."""
    examples = round_up(MIN_EXAMPLES * amount.length, 64)
    usual = max(training.batch_tokens, examples)
    small = 2 ** round(math.log2(max(1.0, amount.positions / UPDATES_AN_EPOCH)))
    batch = clamp(max(MIN_BATCH, examples), small, usual)
    per_epoch = max(1, math.ceil(amount.positions / batch))
    ends = training.schedule.kind == "cosine"
    epochs = plan_epochs(training.epochs * amount.positions / usual if ends else OPEN_UPDATES, per_epoch)
    updates = epochs * per_epoch
    every = clamp(100, round_up(updates / 10, 50), 500) if ends else clamp(250, per_epoch, 500)
    patience = None if ends else math.ceil(PATIENT_UPDATES / every)
    reasons.append(f"training.batch_tokens {batch}: about {plural(per_epoch, 'updates')} an epoch")
    reasons.append(f"training.epochs {epochs}: at most about {updates:,} updates, with an evaluation every {every}")
    stops = f"training stops after {(patience or 0) * every:,} updates without a better {training.metric}"
    runs = "the learning rate falls to 0 with the last update, and the best weights are kept"
    reasons.append(f"training.patience {patience}: {stops}" if patience else f"training.patience null: {runs}")
    warmup = clamp(50, training.schedule.warmup, max(50, updates // 10))
    changes = {"batch_tokens": batch, "epochs": epochs, "evaluate_every": every, "patience": patience}
    schedule = training.schedule.model_copy(update={"warmup": warmup})
    return training.model_copy(update={**changes, "schedule": schedule, "max_updates": None})


def plan_epochs(updates: float, per_epoch: int) -> int:
    """The epochs for a number of updates; a recipe that would have too few on these data gets more."""
    wanted = updates if updates >= ENOUGH_UPDATES else LEAST_UPDATES
    return max(1, min(math.ceil(wanted / per_epoch), MOST_UPDATES // per_epoch))


# The model.


def fit_model(
    model: EncoderDecoderConfig | TaggerConfig, data: DataConfig, examples: int, reasons: list[str]
) -> EncoderDecoderConfig | TaggerConfig:
    """The model without the parts that these data cannot have, smaller for few examples."""
    values = model.model_dump(by_alias=True)
    if isinstance(model, EncoderDecoderConfig):
        values |= _fitting_parts(model, data)
    limit = next((size for most, size in SIZES if examples < most), None)
    if limit is not None:
        values = shrink(values, limit)
    sizes = f"sizes up to {limit}" if limit is not None else "the sizes"
    fitted = type(model).model_validate(values)
    if len(set(map(state_size, fitted.encoders))) > 1:  # their states are concatenated, so they have one size
        fitted = fitted.model_copy(update={"encoder": model.encoder})
    reasons.append(f"model: {sizes}, {describe_model(fitted)}: for {examples:,} examples")
    return fitted


def _fitting_parts(model: EncoderDecoderConfig, data: DataConfig) -> dict[str, Any]:
    """The keys of parts that these data cannot have."""
    values: dict[str, Any] = {}
    texts = [source.tokens for source in data.sources if source.kind == "text"]
    if model.matches and not (data.shared_vocabulary and len(texts) > 1):
        values["matches"] = False
    if model.copying and data.target.tokens not in texts:
        values["copy"] = False
    if model.tie in ("tables", "all") and not data.shared_vocabulary:
        values["tie"] = "output" if model.tie == "all" else "none"
    return values


def describe_model(model: EncoderDecoderConfig | TaggerConfig) -> str:
    """The kinds of its parts."""
    kinds = " and ".join(dict.fromkeys(encoder.kind for encoder in model.encoders))
    return f"encoder {kinds}, decoder {model.decoder.kind}"


def shrink(values: Any, limit: int) -> Any:  # noqa: ANN401 (any YAML value)
    """The sizes in some sections, limited."""
    if isinstance(values, list):
        return [shrink(value, limit) for value in values]
    if not isinstance(values, dict):
        return values
    limits = {"size": limit, "embedding": limit, "feedforward": 4 * limit}
    return {
        key: min(value, limits[key]) if key in limits and isinstance(value, int) else shrink(value, limit)
        for key, value in values.items()
    }


# Decoding and metrics.


def fit_decoding(decoding: DecodingConfig, data: DataConfig, target: TokenChoice, reasons: list[str]) -> DecodingConfig:
    """The search, with a maximum length that suits the targets."""
    longest = clamp(20, 2 * target.longest, 500)
    reasons.append(f"decoding.max_length {longest}: twice the longest target seen ({target.longest}), 20 to 500")
    return decoding.model_copy(update={"max_length": longest, "joint": decoding.joint if data.text else 0.0})


def fit_metrics(metrics: list[Metric], target: TokenChoice) -> list[Metric]:
    """Errors of characters where targets are spelt, of tokens where they are symbols."""
    if target.tokens == "words":
        return ["token_error_rate" if name == "cer" else name for name in metrics]
    if target.tokens in ("characters", "letters"):
        fitted: list[Metric] = ["cer" if name in ("per", "wer", "token_error_rate") else name for name in metrics]
        fitted += ["exact_match"] if target.mean <= SHORT else []
        return list(dict.fromkeys(fitted))
    return metrics
