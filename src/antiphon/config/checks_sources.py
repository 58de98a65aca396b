"""What sources, fronts and encoders need of one another, and what is for texts only."""

from __future__ import annotations

from antiphon.config.networks import EncoderDecoderConfig, FrontConfig, state_size
from antiphon.config.schema import Config, DataConfig, SourceConfig, TextConfig
from antiphon.config.sources import CellsConfig, ImageConfig, SubsampledConfig

__all__ = ["FRONTS_OF", "front_of", "fronts_of", "source_problems"]

# The fronts of each kind of source, the usual one first.
FRONTS_OF: dict[str, tuple[str, ...]] = {
    "text": (),
    "image": ("cells", "patches", "linear"),
    "audio": ("subsampled", "linear"),
    "features": ("linear", "subsampled"),
    "frames": ("frame-cells", "linear"),
}
GRIDS = ("cells", "patches")  # their vectors stand in rows and columns, and know where


def fronts_of(model: EncoderDecoderConfig, sources: int) -> list[FrontConfig | None]:
    """The front of each source, as far as one is chosen."""
    return list(model.front) if isinstance(model.front, list) else [model.front] * sources


def front_of(kind: str, chosen: FrontConfig | None) -> str:
    """The kind of front that a source of this kind gets."""
    return chosen.kind if chosen is not None else (*FRONTS_OF[kind], "tokens")[0]


def source_problems(config: Config) -> list[str]:
    """A sentence for each key that does not fit what the source is, or how many there are."""
    return [
        *_number_problems(config),
        *_kind_problems(config),
        *_mask_problems(config),
        *_width_problems(config),
        *_text_problems(config),
        *_size_problems(config),
        *_part_problems(config),
    ]


def _number_problems(config: Config) -> list[str]:
    """Lists are as long as the list of sources."""
    model, count = config.model, len(config.data.sources)
    if not isinstance(model, EncoderDecoderConfig):
        return []
    problems = []
    for key, value in (("front", model.front), ("encoder", model.encoder)):
        if isinstance(value, list) and len(value) != count:
            is_one = "one source, which is no list" if count == 1 else f"{count} sources"
            remedy = "give one section" if count == 1 else f"give {count}, or one section for all"
            problems.append(f"model.{key}: a list of {len(value)}, but data.source is {is_one}; {remedy}")
    if count > 1 and model.front is not None and not isinstance(model.front, list):
        problems.append(
            f"model.front: one section, but there are {count} sources; give a list of {count}, with null for the usual"
        )
    return problems


def _kind_problems(config: Config) -> list[str]:
    """Which front is for which kind of source."""
    model, sources, data = config.model, config.data.sources, config.data
    if not isinstance(model, EncoderDecoderConfig):
        return []
    fronts = fronts_of(model, len(sources))
    if len(fronts) != len(sources):
        return []
    problems = []
    for number, (source, front) in enumerate(zip(sources, fronts, strict=True)):
        key = f"model.front[{number}]" if isinstance(model.front, list) else "model.front"
        fitting = FRONTS_OF[source.kind]
        if front is not None and front.kind not in fitting:
            remedy = f"set it to {' or '.join(fitting)}, or " if fitting else "set "
            what = "model.front" if fitting else key
            problems.append(
                f"{key}.kind: {front.kind} is not for {data.place(number)}, which is of kind {source.kind}; "
                f"{remedy}{what} to null"
            )
        if isinstance(front, CellsConfig) and front.wide > len(front.channels):
            stages = len(front.channels)
            problems.append(f"{key}.wide: {front.wide}, but there are {stages} stages; set it to at most {stages}")
        if isinstance(front, SubsampledConfig) and front.kernel % 2 == 0:
            odd = f"{front.kernel - 1} or {front.kernel + 1}"
            problems.append(f"{key}.kernel: {front.kernel} is even, so it has no middle; set it to {odd}")
    return problems


def _mask_problems(config: Config) -> list[str]:
    """How wide a mask is means nothing where there is none."""
    problems = []
    for number, source in enumerate(config.data.sources):
        for name in ("time", "mel", "value"):
            width, usual = getattr(source, f"{name}_width", None), type(source).model_fields.get(f"{name}_width")
            if usual is not None and width != usual.default and not getattr(source, f"{name}_masks"):
                place = f"{config.data.place(number)}.{name}"
                problems.append(
                    f"{place}_width: {width} is the width of a mask, but {name}_masks is 0; "
                    f"set it back to {usual.default}, or {place}_masks to 1 or more"
                )
    return problems


def _width_problems(config: Config) -> list[str]:
    """A picture has as many positions as it is wide."""
    return [
        f"{config.data.place(number)}.max_length: {source.max_length} is less than the width {source.width}, so every "
        f"picture would be left out; set it to {source.width} or more"
        for number, source in enumerate(config.data.sources)
        if isinstance(source, ImageConfig) and source.width is not None and source.width > source.max_length
    ]


def _text_problems(config: Config) -> list[str]:
    """What only texts have."""
    data, model = config.data, config.model
    if not data.sources:
        return []
    texts = [source for source in data.sources if isinstance(source, TextConfig)]
    what = f"of kind {data.sources[0].kind}" if len(data.sources) == 1 else f"{len(data.sources)} sources"
    problems = []
    if model.kind == "concatenated" and data.text is None:
        problems.append(
            f"model.kind: concatenated reads one text, but data.source is {what}; set model.kind to encoder-decoder"
        )
    if data.shared_vocabulary and not texts:
        problems.append(f"data.shared_vocabulary: data.source is {what} and has no words; set it to false")
    if model.tie in ("tables", "all") and not texts:
        other = "output" if model.tie == "all" else "none"
        fact = f"{model.tie} is a table for both sides, but data.source is {what}"
        problems.append(f"model.tie: {fact}; set it to {other}")
    if isinstance(model, EncoderDecoderConfig) and model.copying:
        problems += _copy_problems(texts, data.target, what)
    if isinstance(model, EncoderDecoderConfig) and model.matches:
        problems += _match_problems(data, texts)
    if data.text is None and config.training.noise.enabled:
        problems.append(f"training.noise: it spoils the tokens of one text, but data.source is {what}; leave it out")
    if data.skip_unreadable and len(texts) == len(data.sources):
        fact = "true is for sources that are files, but there are only texts"
        problems.append(f"data.skip_unreadable: {fact}; set it to false")
    return problems


def _match_problems(data: DataConfig, texts: list[TextConfig]) -> list[str]:
    """Tokens are the same where two texts have one vocabulary."""
    if len(texts) < 2:
        fact = f"tokens of one text are looked for in another, but data.source has {len(texts)}"
        return [f"model.matches: {fact}; set it to false"]
    if data.shared_vocabulary:
        return []
    fact = "the texts of data.source have a vocabulary each"
    return [f"model.matches: {fact}; set data.shared_vocabulary to true, or matches to false"]


def _copy_problems(texts: list[TextConfig], target: TextConfig, what: str) -> list[str]:
    """Copied is what stands in a text and is a token of the target."""
    if not texts:
        return [f"model.copy: words are copied from a text, but data.source is {what}; set it to false"]
    kinds = {text.tokens for text in texts}
    if target.tokens in kinds:
        return []
    return [
        f"model.copy: a token is copied as it stands, but the source has {' and '.join(sorted(kinds))} and the target "
        f"{target.tokens}; set data.target.tokens to {sorted(kinds)[0]}, or copy to false"
    ]


def _size_problems(config: Config) -> list[str]:
    """States of several encoders stand side by side, so they have one size."""
    model = config.model
    if not isinstance(model, EncoderDecoderConfig) or not isinstance(model.encoder, list):
        return []
    sizes = [state_size(encoder) for encoder in model.encoder]
    if len(set(sizes)) == 1:
        return []
    said = " and ".join(map(str, sizes))
    return [f"model.encoder: states of {said} cannot stand side by side; make them of one size (both directions count)"]


def _part_problems(config: Config) -> list[str]:
    """n-grams, weights of other runs and learnt positions."""
    model, data = config.model, config.data
    if not isinstance(model, EncoderDecoderConfig):
        return []
    problems = []
    for number, encoder in enumerate(model.encoders):
        key = f"model.encoder[{number}]" if isinstance(model.encoder, list) else "model.encoder"
        read = data.sources[number : number + 1] if isinstance(model.encoder, list) else data.sources
        if encoder.ngrams and not any(isinstance(source, TextConfig) for source in read):
            problems.append(f"{key}.ngrams: {encoder.ngrams} are of tokens, but it reads no text; set it to []")
        for name, value in (("from", encoder.from_run), ("freeze", encoder.freeze)):
            if value and len(data.sources) > 1:
                off = "null" if name == "from" else "false"
                problems.append(f"{key}.{name}: only an encoder of one source can have it; set it to {off}")
        if getattr(encoder, "positions", "") == "learnt" and (grids := _grids(model, read, number)):
            problems.append(
                f"{key}.positions: learnt ones count in one row, but {' and '.join(grids)} stand in rows and columns "
                "and know where; set it to none"
            )
    return problems


def _grids(model: EncoderDecoderConfig, read: list[SourceConfig], number: int) -> list[str]:
    """The fronts with rows and columns among those of these sources, of which the first may have this number."""
    fronts = fronts_of(model, len(read))
    if isinstance(model.encoder, list) and isinstance(model.front, list):
        fronts = fronts[number : number + 1]
    kinds = [front_of(source.kind, front) for source, front in zip(read, fronts, strict=False)]
    return [kind for kind in kinds if kind in GRIDS]
