"""The sections of the texts: tokens, vocabularies, lengths, case and Unicode form."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.autoconfig.tasks import Evidence
from antiphon.autoconfig.text_form import case_reason, mixes_forms
from antiphon.autoconfig.text_profile import (
    TextProfile,
    TokenChoice,
    as_tokens,
    choose_tokens,
    count_tokens,
    with_tokens,
)
from antiphon.config.schema import DataConfig, TextConfig
from antiphon.text import plural

__all__ = ["FittedTexts", "fit_texts"]

FEW = 2_000  # examples; with fewer no word is left out because it is rare
OPEN_WORDS = 1_000  # of speech; with more of them its words are spelt
SPELT = ("characters", "letters")


@dataclass(frozen=True)
class _Side:
    """One text: its section and that of the recipe, and the tokens chosen for it."""

    name: str
    section: TextConfig
    recipe: TextConfig | None
    profile: TextProfile
    choice: TokenChoice


@dataclass(frozen=True)
class FittedTexts:
    """The data with their text sections, the tokens chosen for the target, and the mean length of an example."""

    data: DataConfig
    target: TokenChoice
    length: float  # its longer side; of a source that is a file `files` positions are counted


def fit_texts(
    data: DataConfig, seen: Evidence, recipe: DataConfig | None, reasons: list[str], *, files: float = 0.0
) -> FittedTexts:
    """The sections of the texts, as in a recipe where that fits; `files` is the mean length of a source in files."""
    sides = _sides(data, seen, recipe)
    overlap = _overlap(sides)
    shared = _shares(sides, recipe, overlap)
    sections = [_with_recipe(side, seen.examples) for side in sides]
    if shared:
        common = {"min_count": sections[-1].min_count, "vocabulary": max(section.vocabulary for section in sections)}
        sections = [section.model_copy(update=common) for section in sections]
    kinds = {section.tokens for section in sections}
    _explain(sides, sections, seen, reasons)
    if len(sides) > 1 and kinds in ({"bpe"}, {"words"}):
        characters = f"{overlap:.0%} of the characters are common"
        why = "as in the recipe" if recipe and recipe.shared_vocabulary == shared else characters
        reasons.append(f"data.shared_vocabulary {str(shared).lower()}: {why}")
    sections = _in_form(sides, sections, seen, reasons, shared=shared)
    length = _mean_length(seen, [side.choice for side in sides], files)
    return FittedTexts(_with_sections(data, sections, shared=shared), sides[-1].choice, length)


def _explain(sides: list[_Side], sections: list[TextConfig], seen: Evidence, reasons: list[str]) -> None:
    """Add the reasons for tokens, vocabularies and lengths."""
    for side, section, texts in zip(sides, sections, (*seen.sources, seen.targets), strict=True):
        reasons.append(f"{side.name}.tokens {section.tokens}: {side.choice.reason}")
        if section.tokens == "bpe":
            reasons.append(f"{side.name}.vocabulary {section.vocabulary}: sub-words for {seen.examples:,} examples")
        share = sum(count_tokens(text, section.tokens) > section.max_length for text in texts) / len(texts)
        cut = f"longer ones ({share:.1%}) are left out; " if side.choice.longest > section.max_length else ""
        longest = plural(side.choice.longest, "tokens")
        reasons.append(f"{side.name}.max_length {section.max_length}: {cut}the longest seen has {longest}")


def _mean_length(seen: Evidence, choices: list[TokenChoice], files: float) -> float:
    """The mean over the examples of max(source, target), with </s>."""
    *sources, target = (
        [count_tokens(cell, choice.tokens) for cell in cells]
        for cells, choice in zip((*seen.sources, seen.targets), choices, strict=True)
    )
    both = [sum(lengths) + files for lengths in zip(*sources, strict=True)] or [files] * len(target)
    longer: list[float] = [max(pair) for pair in zip(both, target, strict=True)]
    return 1 + sum(longer) / len(longer)


def _sides(data: DataConfig, seen: Evidence, recipe: DataConfig | None) -> list[_Side]:
    """The texts of the sources, then the target."""
    models = [source for source in recipe.sources if isinstance(source, TextConfig)] if recipe else []
    texts = [(number, source) for number, source in enumerate(data.sources) if isinstance(source, TextConfig)]
    spoken = bool(seen.kinds) and seen.kinds[0] in ("audio", "features")
    sides = []
    for place, ((number, section), profile) in enumerate(zip(texts, seen.texts, strict=True)):
        model = models[min(place, len(models) - 1)] if models else None
        sides.append(_Side(data.place(number), section, model, profile, _tokens(profile, model)))
    model = recipe.target if recipe else None
    choice = _tokens(seen.target, model)
    if seen.classes and model and model.tokens == "words":
        choice = as_tokens(seen.target, "words", f"only {seen.classes} different answers, as in classification")
    if spoken and choice.tokens in ("words", "bpe") and seen.target.word_types > OPEN_WORDS:
        reason = f"{seen.target.word_types:,} different words are too many to learn"
        choice = as_tokens(seen.target, "characters", reason)
    return [*sides, _Side("data.target", data.target, model, seen.target, choice)]


def _tokens(profile: TextProfile, recipe: TextConfig | None) -> TokenChoice:
    """Those of the recipe; but a closed vocabulary is not spelt, and short strings are no words."""
    own = choose_tokens(profile)
    if recipe is None or recipe.tokens == own.tokens:
        return own
    closed = own.tokens == "words" and recipe.tokens in SPELT
    spelt = own.tokens in SPELT and recipe.tokens == "words"
    if closed or spelt or (own.tokens, recipe.tokens) == ("letters", "characters"):
        return own
    return as_tokens(profile, recipe.tokens, f"as in the recipe; {own.reason}")


def _overlap(sides: list[_Side]) -> float:
    """The share of the characters that occur in all texts."""
    characters = [side.profile.characters for side in sides]
    return len(frozenset.intersection(*characters)) / max(1, len(frozenset.union(*characters)))


def _shares(sides: list[_Side], recipe: DataConfig | None, overlap: float) -> bool:
    """True if one vocabulary serves all texts."""
    kinds = {side.choice.tokens for side in sides}
    if len(sides) == 1 or len(kinds) > 1 or (recipe and not recipe.shared_vocabulary):
        return False
    return overlap > 0.5 or len(sides) > 2 if kinds == {"bpe"} else recipe is not None


def _with_recipe(side: _Side, examples: int) -> TextConfig:
    """The section with the vocabulary of the recipe, if it has the same tokens."""
    section, recipe = with_tokens(side.section, side.choice, examples), side.recipe
    if recipe is None or recipe.tokens != section.tokens:
        return section
    minimum = recipe.min_count if examples >= FEW else 1
    most = max(recipe.vocabulary, side.profile.word_types // 4)
    vocabulary = min(section.vocabulary, most) if section.tokens == "bpe" else recipe.vocabulary
    changes = {"min_count": minimum, "vocabulary": vocabulary, "affixes": recipe.affixes}
    return section.model_copy(update=changes)


def _in_form(
    sides: list[_Side], sections: list[TextConfig], seen: Evidence, reasons: list[str], *, shared: bool
) -> list[TextConfig]:
    """The sections in lower case or a Unicode form, if the data call for it.

    Answers keep their case. One vocabulary for both sides is in lower case only if all answers are.
    """
    cells = [*seen.sources, seen.targets]
    read = zip(sections, seen.sources, strict=False)  # the case of a word is one of its affixes
    lower = [*("" if section.affixes else case_reason(texts, seen.examples) for section, texts in read), ""]
    if shared:
        together = any(lower) and all(target == target.lower() for target in seen.targets)
        lower = [reason or "it shares its vocabulary with a text in lower case" for reason in lower if together]
        lower += [""] * (len(sections) - len(lower))
    for side, reason in zip(sides, lower, strict=True):
        reasons.extend([f"{side.name}.lowercase true: {reason}"] if reason else [])
    mixed = mixes_forms([text for texts in cells for text in texts])
    if mixed:
        reasons.append("data: normalization nfc for every text: some é are one character, others an e and an accent")
    form = {"normalization": "nfc"} if mixed else {}
    return [
        section.model_copy(update={"lowercase": bool(reason), **form})
        for section, reason in zip(sections, lower, strict=True)
    ]


def _with_sections(data: DataConfig, sections: list[TextConfig], *, shared: bool) -> DataConfig:
    texts = iter(sections[:-1])
    sources = [next(texts) if isinstance(source, TextConfig) else source for source in data.sources]
    source = sources if isinstance(data.source, list) else sources[0]
    return data.model_copy(update={"source": source, "target": sections[-1], "shared_vocabulary": shared})
