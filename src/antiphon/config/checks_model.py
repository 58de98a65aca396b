"""Parts of a network that do not fit together, with both numbers and what to change."""

from __future__ import annotations

from antiphon.config.checks_sources import fronts_of, source_problems
from antiphon.config.networks import (
    AttentionConfig,
    ConcatenatedConfig,
    ConvolutionalEncoderConfig,
    DecoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
    LanguageModelConfig,
    RecurrentEncoderConfig,
    StaticContextConfig,
    TransformerConfig,
    state_size,
    vector_size,
)
from antiphon.config.schema import Config, TextConfig, TrainingConfig
from antiphon.config.sources import CellsConfig, FeaturesConfig, ImageConfig

__all__ = ["model_problems"]

EQUAL_SIZES = ("dot", "scaled-dot", "cosine")  # of any other such score, building the model says so
SHORTEST_NGRAM = 3
INNER_SIZE = ("additive", "concat")
DECODERS_OF = {"attention": ("bahdanau", "luong"), "multi-head": ("transformer",)}  # of all others: plain
WHY = {
    "attention": "only bahdanau and luong look at the source step by step",
    "multi-head": "these heads are inside the blocks of a Transformer decoder",
    "static": "one context for the whole answer sets or feeds the state of a plain recurrent network",
}


def model_problems(config: Config) -> list[str]:
    """A sentence for each pair of parts that cannot work together or would be ignored."""
    model, problems = config.model, []
    if isinstance(model, EncoderDecoderConfig):
        problems += pairing_problems(model) or [*context_problems(model), *copy_problems(model)]
        problems += spelling_problems(config, model)
        for path, encoder in encoder_paths(model):
            problems += [*part_problems(path, encoder), *ngram_problems(path, encoder)]
    problems += part_problems("model.decoder", model.decoder)
    return [
        *problems,
        *source_problems(config),
        *tie_problems(config),
        *length_problems(config),
        *diagonal_problems(config),
        *unknown_problems(config),
    ]


def encoder_paths(model: EncoderDecoderConfig) -> list[tuple[str, EncoderConfig]]:
    """Each encoder and its key."""
    if not isinstance(model.encoder, list):
        return [("model.encoder", model.encoder)]
    return [(f"model.encoder[{number}]", encoder) for number, encoder in enumerate(model.encoder)]


def pairing_problems(model: EncoderDecoderConfig) -> list[str]:
    """Which context is for which decoder."""
    context, decoder = model.context.kind, model.decoder.kind
    fitting = DECODERS_OF.get(context, ("plain",))
    if decoder in fitting:
        return []
    kinds = {kind: name for name, decoders in DECODERS_OF.items() for kind in decoders}
    return [
        f"model.context.kind: {context} is not for the decoder {decoder} ({WHY.get(context, WHY['static'])}); "
        f"set it to {kinds.get(decoder, 'last, mean or max')}, or model.decoder.kind to {' or '.join(fitting)}"
    ]


def diagonal_problems(config: Config) -> list[str]:
    """Guided attention needs weights that can be learnt from, over one source."""
    if config.training.diagonal == 0.0:
        return unused_width(config.training)
    model, path = config.model, f"training.diagonal: {config.training.diagonal}"
    if not isinstance(model, EncoderDecoderConfig):
        return [f"{path} is for attention to a source, but a {model.kind} has none; set it to 0"]
    if not isinstance(model.context, AttentionConfig):
        return [f"{path} is for soft attention; set it to 0, or model.decoder.kind to bahdanau or luong"]
    if model.context.alignment == "hard":
        return [f"{path} is for soft attention; set it to 0, or model.context.alignment to soft"]
    return [f"{path} is for {problem}; set it to 0{remedy}" for problem, remedy in order_problems(config)]


def unknown_problems(config: Config) -> list[str]:
    """What is unknown is replaced by a token of one text that is looked at."""
    if not config.decoding.replace_unknown:
        return []
    looks = isinstance(config.model, EncoderDecoderConfig) and not isinstance(config.model.context, StaticContextConfig)
    if looks and len(config.data.sources) == 1 and isinstance(config.data.sources[0], TextConfig):
        return []
    return ["decoding.replace_unknown: words are taken from one text by attention, which is not there; set it to false"]


def unused_width(training: TrainingConfig) -> list[str]:
    """A width means nothing where nothing is guided."""
    width, usual = training.diagonal_width, TrainingConfig.model_fields["diagonal_width"].default
    if width == usual:
        return []
    return [
        f"training.diagonal_width: {width} is how far off the diagonal looks cost little, but training.diagonal is 0; "
        f"set it back to {usual}, or training.diagonal to 1"
    ]


def context_problems(model: EncoderDecoderConfig) -> list[str]:
    """The sizes that a score or a bridge compares, and options of another kind."""
    encoder = model.encoders[0]  # the states of several are of one size
    key, size = state_size(encoder), model.decoder.size
    if isinstance(model.context, AttentionConfig):
        return attention_problems(model.context, key=key, query=size, made=_made(encoder))
    if not isinstance(model.context, StaticContextConfig) or model.context.bridge == "dense":
        return []
    if model.context.feed == "every-step":
        return [
            "model.context.bridge: direct is how c sets the first state, but feed is every-step; "
            "set it to dense (the default), or feed to start or both"
        ]
    if key != size:
        return [
            f"model.context.bridge: direct hands a state of {key} ({_made(encoder)}) to a decoder of {size}; "
            f"set model.decoder.size to {key}, or the bridge to dense"
        ]
    return []


def copy_problems(model: EncoderDecoderConfig) -> list[str]:
    """A word is copied by the weight that a step gives to it."""
    if not model.copying or not isinstance(model.context, StaticContextConfig):
        return []
    return [
        f"model.copy: a word is copied by the weight of attention to it, and the decoder {model.decoder.kind} has "
        "none; set model.decoder.kind to bahdanau, luong or transformer, or copy to false"
    ]


def spelling_problems(config: Config, model: EncoderDecoderConfig) -> list[str]:
    """What is spelt stands in the order of one source, and the encoder learns from it."""
    if model.ctc == 0.0:
        return []
    path = f"model.ctc: {model.ctc}"
    problems = [f"{path} is for {problem}; set it to 0{remedy}" for problem, remedy in order_problems(config)]
    if model.encoders[0].freeze:
        problems.append(f"{path} teaches the encoder, but model.encoder.freeze is true; set one of them to 0 or false")
    return problems


def order_problems(config: Config) -> list[tuple[str, str]]:
    """Why there is not one source that is read in order, and what would make it so."""
    wanted, sources = "one source that is read in order", config.data.sources
    if len(sources) != 1:
        return [(f"{wanted}, but there are {len(sources)}", "")]
    [source] = sources
    if isinstance(source, FeaturesConfig) and not source.ordered:
        return [(f"{wanted}, but data.source.ordered is false", ", or ordered to true")]
    if isinstance(source, ImageConfig):
        assert isinstance(config.model, EncoderDecoderConfig)
        [front] = fronts_of(config.model, 1)
        if not isinstance(front, CellsConfig) or not front.columns:
            remedy = ", or model.front to {kind: cells, columns: true}"
            return [(f"{wanted}, but the cells of a picture are not", remedy)]
    return []


def attention_problems(context: AttentionConfig, *, key: int, query: int, made: str) -> list[str]:
    """The score has to fit the states it compares."""
    problems = []
    if context.score in EQUAL_SIZES and query != key:
        problems.append(
            f"model.context.score: {context.score} needs states of one size, but the decoder's is {query} and the "
            f"encoder's {key} ({made}); set model.decoder.size to {key}, or the score to bilinear"
        )
    if context.size is not None and context.score not in INNER_SIZE:
        problems.append(
            f"model.context.size: {context.size} is the inner size of additive and concat, but the score is "
            f"{context.score}; set it to null, or the score to additive"
        )
    for name in ("entropy", "baseline"):
        value, usual = getattr(context, name), AttentionConfig.model_fields[name].default
        if context.alignment != "hard" and value != usual:
            problems.append(
                f"model.context.{name}: {value:g} is only for hard alignment, but the alignment is "
                f"{context.alignment}; set it back to {usual:g}, or the alignment to hard"
            )
    return problems


def part_problems(path: str, part: EncoderConfig | DecoderConfig) -> list[str]:
    """What one encoder or decoder cannot be."""
    problems = []
    if isinstance(part, TransformerConfig) and part.size % part.heads:
        problems.append(
            f"{path}.heads: {part.heads} heads do not divide the size {part.size}; "
            f"set the heads to {_divisor(part.size, part.heads)}, or the size to {_multiple(part.size, part.heads)}"
        )
    if isinstance(part, ConvolutionalEncoderConfig) and part.kernel % 2 == 0:
        problems.append(
            f"{path}.kernel: {part.kernel} is even, so it has no middle; set it to {part.kernel - 1} "
            f"or {part.kernel + 1}"
        )
    if getattr(part, "positions", None) == "sinusoidal" and part.size % 2:
        problems.append(
            f"{path}.size: sinusoidal positions are pairs of sin and cos, and {part.size} is odd; "
            f"set it to {part.size + 1}, or the positions to learnt"
        )
    if isinstance(part, RecurrentEncoderConfig) and part.residual and part.layers == 1:
        problems.append(f"{path}.residual: there is nothing to add to in one layer; set {path}.layers to 2 or more")
    return problems


def ngram_problems(path: str, encoder: EncoderConfig) -> list[str]:
    """The n-grams around a token have it in their middle, and it has a vector of its own."""
    problems = [
        f"{path}.ngrams: {length} has no middle with others around it; set it to {max(3, length + 1)}"
        for length in encoder.ngrams
        if length % 2 == 0 or length < SHORTEST_NGRAM
    ]
    if len(set(encoder.ngrams)) < len(encoder.ngrams):
        problems.append(f"{path}.ngrams: {encoder.ngrams} names a length twice; name each once")
    usual = type(encoder).model_fields["ngram_rows"].default
    if not encoder.ngrams and encoder.ngram_rows != usual:
        problems.append(
            f"{path}.ngram_rows: {encoder.ngram_rows} is the size of the tables of n-grams, but there are none; "
            f"set it back to {usual}, or {path}.ngrams to [3, 5]"
        )
    return problems


def tie_problems(config: Config) -> list[str]:
    """Tied tables have one size and one vocabulary."""
    model, problems = config.model, []
    width, size = vector_size(model.decoder), model.decoder.size
    if model.tie in ("output", "all") and width != size:
        problems.append(
            f"model.tie: the output layer is {size} wide and the table {width}; "
            f"set model.decoder.embedding to {size}, or tie to {'tables' if model.tie == 'all' else 'none'}"
        )
    if model.tie not in ("tables", "all"):
        return problems
    other = "output" if model.tie == "all" else "none"
    if not config.data.shared_vocabulary:
        problems.append(
            f"model.tie: {model.tie} is one table for both sides; set data.shared_vocabulary to true, or tie to {other}"
        )
    for path, encoder in encoder_paths(model) if isinstance(model, EncoderDecoderConfig) else []:
        if _reads_text(config, path) and vector_size(encoder) != width:
            key = "embedding" if hasattr(encoder, "embedding") else "size"
            problems.append(
                f"model.tie: the source's table is {vector_size(encoder)} wide and the target's {width}; "
                f"set {path}.{key} to {width}, or tie to {other}"
            )
    return problems


def _reads_text(config: Config, path: str) -> bool:
    """Whether the encoder of this key reads a text."""
    places = [f"model.encoder[{number}]" for number in range(len(config.data.sources))]
    both = zip(places, config.data.sources, strict=True)
    return any(isinstance(source, TextConfig) for place, source in both if path in (place, "model.encoder"))


def length_problems(config: Config) -> list[str]:
    """A learnt table of positions has an end, and `longest` means nothing without one."""
    model, data, problems = config.model, config.data, []
    lengths = [source.max_length + isinstance(source, TextConfig) for source in data.sources]
    source = sum(lengths)
    if isinstance(model, EncoderDecoderConfig):
        for number, (path, encoder) in enumerate(encoder_paths(model)):
            apart = isinstance(model.encoder, list)
            needed = sum(lengths[number : number + 1]) if apart else source
            key = data.place(number) if apart else "data.source"
            problems += longest_problems(path, encoder, needed, f"{key}.max_length")
    target, keys = data.target.max_length + 1, "data.target.max_length"
    if isinstance(model, LanguageModelConfig):  # it writes in pieces, so its answers may have any length
        target, keys = (data.window + 1, "data.window") if data.window else (target, keys)
    else:
        target, keys = max(target, config.decoding.max_length), f"{keys} and decoding.max_length"
    if isinstance(model, ConcatenatedConfig):
        target, keys = source + target, f"data.source.max_length, or {keys}"
    return [*problems, *longest_problems("model.decoder", model.decoder, target, keys)]


def longest_problems(path: str, part: EncoderConfig | DecoderConfig, needed: int, keys: str) -> list[str]:
    """`needed` positions follow from the `keys`."""
    if not isinstance(part, ConvolutionalEncoderConfig | TransformerConfig):
        return []
    usual = type(part).model_fields["longest"].default
    if part.positions == "learnt" and part.longest < needed:
        return [
            f"{path}.longest: a table of {part.longest} learnt positions, but sequences may be {needed} tokens "
            f"long; set it to {needed}, or lower {keys}"
        ]
    if part.positions != "learnt" and part.longest != usual:
        return [
            f"{path}.longest: {part.longest} is the size of a learnt table, but the positions are "
            f"{part.positions}; set it back to {usual}, or the positions to learnt"
        ]
    return []


def _made(encoder: EncoderConfig) -> str:
    if not isinstance(encoder, RecurrentEncoderConfig):
        return encoder.kind
    return f"{encoder.size} x 2 directions" if encoder.bidirectional else "one direction"


def _divisor(size: int, heads: int) -> int:
    """The number of heads nearest to this that divides the size."""
    return min((n for n in range(1, size + 1) if size % n == 0), key=lambda n: abs(n - heads))


def _multiple(size: int, heads: int) -> int:
    """The next size that the heads divide."""
    return (size // heads + 1) * heads
