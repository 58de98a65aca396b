"""Keys that a tagger does not use, or that do not fit one label for each token; words with affixes."""

from __future__ import annotations

from antiphon.config.networks import ConcatenatedConfig, TaggerConfig
from antiphon.config.schema import Config, DecodingConfig, TextConfig, TrainingConfig

__all__ = ["affix_problems", "tagger_problems"]

NOT_DECODED = ("beam", "length_penalty", "max_length", "joint", "replace_unknown")
WHY_NOT_DECODED = "the tokens decide how many labels there are, and each is chosen alone"


def tagger_problems(config: Config) -> list[str]:
    """A sentence for each key that a tagger cannot have, or that would have no effect."""
    data, problems = config.data, list[str]()
    if not isinstance(config.model, TaggerConfig):
        return []
    if data.text is None:
        return ["data.source: a tagger reads one text; give one source of kind text"]
    for key, section in (("data.source", data.text), ("data.target", data.target)):
        if section.tokens != "words":
            problems.append(f"{key}.tokens: {section.tokens}, but a tagger labels words; set it to words")
    if data.text.normalization == "nfkc":
        problems.append("data.source.normalization: nfkc may divide a token; set it to nfc or null")
    if isinstance(data.target.column, list):
        problems.append("data.target.column: a token has one label, so give one column")
    if not data.labels:
        problems.append("data.labels: a tagger needs a label for each token; set it to true, or leave it out")
    if data.shared_vocabulary:
        problems.append("data.shared_vocabulary: tokens and labels have a vocabulary each; set it to false")
    return [*problems, *_training_problems(config.training), *_decoding_problems(config.decoding)]


def _training_problems(training: TrainingConfig) -> list[str]:
    """A label depends on no label before it and attends to nothing; noise would move the tokens."""
    found = [("guided_attention", "has no attention"), ("scheduled_sampling", "reads no earlier label")]
    problems = [
        f"training.{key}: a tagger {fact}; set it to null" for key, fact in found if getattr(training, key) is not None
    ]
    moving = [key for key in ("delete", "infill", "permute", "shuffle") if getattr(training.noise, key)]
    problems += [f"training.noise.{key}: it moves tokens away from their labels; leave it out" for key in moving]
    return problems


def _decoding_problems(decoding: DecodingConfig) -> list[str]:
    usual = {key: DecodingConfig.model_fields[key].default for key in NOT_DECODED}
    return [
        f"decoding.{key}: {str(getattr(decoding, key)).lower()} has no effect on a tagger ({WHY_NOT_DECODED}); "
        "leave it out"
        for key in NOT_DECODED
        if getattr(decoding, key) != usual[key]
    ]


def affix_problems(config: Config) -> list[str]:
    """Affixes are those of the words of a source with a vocabulary of its own."""
    data, problems = config.data, []
    texts = [(data.place(n), one) for n, one in enumerate(data.sources) if isinstance(one, TextConfig) and one.affixes]
    for key, text in texts:
        if text.tokens != "words":
            problems.append(f"{key}.affixes: only words have affixes, not {text.tokens}; set tokens to words")
    if texts and data.shared_vocabulary:
        problems.append("data.shared_vocabulary: an answer cannot have affixes; set it to false, or affixes to false")
    if texts and isinstance(config.model, ConcatenatedConfig):
        problems.append(f"{texts[0][0]}.affixes: they are part of an encoder; set it to false")
    if texts and config.decoding.joint:
        problems.append("decoding.joint: it counts known words only; set it to 0, or affixes to false")
    if data.target.affixes:
        problems.append("data.target.affixes: they are for a source; set it to false")
    return problems
