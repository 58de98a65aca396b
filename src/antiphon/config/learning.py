"""Options of frozen parts, pretext tasks and scheduled sampling that do not go together or would be ignored."""

from __future__ import annotations

from antiphon.config.models import EncoderDecoderConfig, LanguageModelConfig
from antiphon.config.schema import Config, NoiseConfig, TrainingConfig
from antiphon.config.yamltext import write_value

__all__ = ["learning_problems"]


def learning_problems(config: Config) -> list[str]:
    """A sentence for each combination that cannot work or would be ignored."""
    return [*freeze_problems(config), *noise_problems(config), *sampling_problems(config)]


def freeze_problems(config: Config) -> list[str]:
    """Something must be left to learn, and what is frozen may not be part of what is not."""
    model = config.model
    parts = ["encoder", "decoder"] if isinstance(model, EncoderDecoderConfig) else ["decoder"]
    frozen = [part for part in parts if getattr(getattr(model, part), "freeze", False)]  # of a list none can be
    if not frozen:
        return []
    shared = model.tie in ("tables", "all")
    if (isinstance(model, LanguageModelConfig) or len(frozen) == 2) or (shared and len(parts) == 1):
        keys = " and ".join(f"model.{part}.freeze" for part in frozen)
        return [f"{keys}: nothing is left to learn; set {'one of them' if len(frozen) == 2 else 'it'} to false"]
    if shared:
        other = "decoder" if frozen == ["encoder"] else "encoder"
        return [
            f"model.{frozen[0]}.freeze: with tie: {model.tie} its table of vectors is that of the {other}, which is "
            "to learn; set model.tie to output or none, or freeze to false"
        ]
    return []


def noise_problems(config: Config) -> list[str]:
    """Noise is for a source."""
    noise, problems = config.training.noise, []
    usual = NoiseConfig.model_fields["span"].default
    if noise.span != usual and noise.infill == 0:
        problems.append(
            f"training.noise.span: {noise.span:g} is the length of spans to fill in, but infill is 0; "
            f"set it back to {usual:g}, or training.noise.infill above 0"
        )
    for key in ("mask", "delete", "infill", "permute"):
        value = getattr(noise, key)
        if value and isinstance(config.model, LanguageModelConfig):
            problems.append(
                f"training.noise.{key}: {write_value(value)} of the source, but a language model has none; "
                f"set it to {write_value(NoiseConfig.model_fields[key].default)}, or model.kind to encoder-decoder"
            )
    return problems


def sampling_problems(config: Config) -> list[str]:
    """How a share climbs means nothing if it stays 0; and own words come one at a time."""
    training, problems = config.training, []
    for key in ("sampling_schedule", "sampling_updates"):
        value, usual = getattr(training, key), TrainingConfig.model_fields[key].default
        if training.sampling == 0 and value != usual:
            problems.append(
                f"training.{key}: {value} is how scheduled sampling climbs, but training.sampling is 0; "
                f"set it back to {write_value(usual)}, or training.sampling above 0"
            )
    if training.sampling and getattr(config.model.decoder, "norm", None) == "batch":
        problems.append(
            f"training.sampling: {training.sampling:g} of the words are the decoder's own, which come one at a time, "
            "but model.decoder.norm: batch counts all positions at once; set norm to layer, or sampling to 0"
        )
    return problems
