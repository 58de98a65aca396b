"""Parts of a network that do not fit together: both sizes, and what to change."""

from __future__ import annotations

from antiphon.config.networks import (
    AttentionConfig,
    ConcatenatedConfig,
    DecoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
    LanguageModelConfig,
    RecurrentEncoderConfig,
    RegisteredEncoderConfig,
    StaticContextConfig,
    TaggerConfig,
    TransformerConfig,
    front_ends_of,
    learnt_positions,
    state_size,
    vector_size,
)
from antiphon.config.schema import Config, TextConfig
from antiphon.config.sections import option_problems
from antiphon.config.sources import CellsConfig, FeaturesConfig, ImageConfig

__all__ = ["encoder_paths", "model_problems"]

EQUAL_SIZES = ("dot", "scaled-dot", "cosine")  # a registered score reports its own error when the model is built
NO_INNER_SIZE = (*EQUAL_SIZES, "bilinear")
DECODERS_OF = {"attention": ("bahdanau", "luong"), "multi-head": ("transformer",)}  # of all others: plain
WHY = {
    "attention": "only bahdanau and luong attend to the source",
    "multi-head": "cross-attention is inside the blocks of a Transformer decoder",
    "static": "one context for the whole answer is for a plain recurrent network",
}


def model_problems(config: Config) -> list[str]:
    """A sentence for each pair of parts that cannot work together or would have no effect."""
    model, problems = config.model, list[str]()
    if isinstance(model, TaggerConfig):
        return _reader_problems(config, model)
    if isinstance(model, EncoderDecoderConfig):
        problems += _pairing_problems(model) or [*_context_problems(model), *_copy_problems(model)]
        problems += _ctc_problems(config, model)
        for path, encoder in encoder_paths(model):
            problems += _part_problems(path, encoder)
    return [
        *problems,
        *_part_problems("model.decoder", model.decoder),
        *_tie_problems(config),
        *_length_problems(config),
        *_guided_attention_problems(config),
        *_sampling_problems(config),
        *_unknown_problems(config),
    ]


def _reader_problems(config: Config, model: TaggerConfig) -> list[str]:
    """The encoder of a tagger, which is all but its output layer; checks_tagger.py has the rest."""
    needed = sum(source.max_length + isinstance(source, TextConfig) for source in config.data.sources)
    return [
        *_part_problems("model.encoder", model.encoder),
        *_longest_problems("model.encoder", model.encoder, needed, "data.source.max_length"),
    ]


def encoder_paths(model: EncoderDecoderConfig) -> list[tuple[str, EncoderConfig]]:
    """Each encoder and its key."""
    if not isinstance(model.encoder, list):
        return [("model.encoder", model.encoder)]
    return [(f"model.encoder[{number}]", encoder) for number, encoder in enumerate(model.encoder)]


def _pairing_problems(model: EncoderDecoderConfig) -> list[str]:
    """Each kind of context is for some decoders."""
    context, decoder = model.context.kind, model.decoder.kind
    fitting = DECODERS_OF.get(context, ("plain",))
    if decoder in fitting:
        return []
    kinds = {kind: name for name, decoders in DECODERS_OF.items() for kind in decoders}
    return [
        f"model.context.kind: {context} is not for the decoder {decoder} ({WHY.get(context, WHY['static'])}); "
        f"set it to {kinds.get(decoder, 'last, mean or max')}, or model.decoder.kind to {' or '.join(fitting)}"
    ]


def _context_problems(model: EncoderDecoderConfig) -> list[str]:
    """The sizes that a score compares or a bridge hands over."""
    encoder, context = model.encoders[0], model.context  # the states of several encoders are of one size
    key, size = state_size(encoder), model.decoder.size
    if isinstance(context, AttentionConfig):
        return _attention_problems(context, key=key, query=size, made=_made(encoder))
    if not isinstance(context, StaticContextConfig) or context.bridge == "dense":
        return []
    if context.feed == "every-step":
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


def _attention_problems(context: AttentionConfig, *, key: int, query: int, made: str) -> list[str]:
    """The score fits the states that it compares."""
    problems = []
    if context.score in EQUAL_SIZES and query != key:
        problems.append(
            f"model.context.score: {context.score} needs states of one size, but the decoder's is {query} and the "
            f"encoder's {key} ({made}); set model.decoder.size to {key}, or the score to bilinear"
        )
    if context.size is not None and context.score in NO_INNER_SIZE:
        problems.append(
            f"model.context.size: {context.size} is the inner size of additive and concat, but the score is "
            f"{context.score}; set it to null, or the score to additive"
        )
    return problems


def _copy_problems(model: EncoderDecoderConfig) -> list[str]:
    """The probability of copying a token is its attention weight."""
    if not model.copying or not isinstance(model.context, StaticContextConfig):
        return []
    return [
        f"model.copy: tokens are copied by their attention weights, and the decoder {model.decoder.kind} has none; "
        "set model.decoder.kind to bahdanau, luong or transformer, or copy to false"
    ]


# Losses, and what they need.


def _ctc_problems(config: Config, model: EncoderDecoderConfig) -> list[str]:
    """CTC needs one source in order, and an encoder that is trained."""
    if model.ctc == 0.0:
        return []
    path = f"model.ctc: {model.ctc}"
    problems = [f"{path} is for {problem}; set it to 0{remedy}" for problem, remedy in _order_problems(config, model)]
    if model.encoders[0].freeze:
        problems.append(f"{path} trains the encoder, but model.encoder.freeze is true; set one of them to 0 or false")
    return problems


def _guided_attention_problems(config: Config) -> list[str]:
    """Guided attention needs soft attention over one source in order."""
    if config.training.guided_attention is None:
        return []
    model, path = config.model, "training.guided_attention: it"
    if not isinstance(model, EncoderDecoderConfig):
        return [f"{path} is for attention to a source, but a {model.kind} has none; set it to null"]
    if not isinstance(model.context, AttentionConfig):
        return [f"{path} is for soft attention; set it to null, or model.decoder.kind to bahdanau or luong"]
    if model.context.alignment.kind == "hard":
        return [f"{path} is for soft attention; set it to null, or model.context.alignment to soft"]
    return [f"{path} is for {problem}; set it to null{remedy}" for problem, remedy in _order_problems(config, model)]


def _order_problems(config: Config, model: EncoderDecoderConfig) -> list[tuple[str, str]]:
    """The reason why there is not one source that is read in order, and the remedy."""
    wanted, sources = "one source that is read in order", config.data.sources
    if len(sources) != 1:
        return [(f"{wanted}, but there are {len(sources)}", "")]
    [source] = sources
    if isinstance(source, FeaturesConfig) and not source.ordered:
        return [(f"{wanted}, but data.source.ordered is false", ", or ordered to true")]
    front = front_ends_of(model, 1)[0]
    if isinstance(source, ImageConfig) and not (isinstance(front, CellsConfig) and front.columns):
        remedy = ", or model.front to {kind: cells, columns: true}"
        return [(f"{wanted}, but the cells of a picture are not", remedy)]
    return []


def _sampling_problems(config: Config) -> list[str]:
    """Predictions of the model come one at a time."""
    if config.training.scheduled_sampling is None or getattr(config.model.decoder, "norm", None) != "batch":
        return []
    return [
        "training.scheduled_sampling: the decoder predicts one token at a time, but model.decoder.norm: batch is "
        "computed over all positions at once; set norm to layer, or scheduled_sampling to null"
    ]


def _unknown_problems(config: Config) -> list[str]:
    """Unknown tokens are replaced by tokens of one text that is attended to."""
    if not config.decoding.replace_unknown:
        return []
    model = config.model
    attends = isinstance(model, EncoderDecoderConfig) and not isinstance(model.context, StaticContextConfig)
    if attends and config.data.text is not None:
        return []
    return ["decoding.replace_unknown: it needs attention to a source that is one text; set it to false"]


# Sizes of one part, shared embeddings, lengths.


def _part_problems(path: str, part: EncoderConfig | DecoderConfig) -> list[str]:
    """Sizes of one encoder or decoder that do not fit."""
    problems = []
    if isinstance(part, RegisteredEncoderConfig):
        problems += option_problems(path, part.kind, part.options)
    if isinstance(part, TransformerConfig) and part.size % part.heads:
        divisors = (n for n in range(1, part.size + 1) if part.size % n == 0)
        nearest = min(divisors, key=lambda n: abs(n - part.heads))
        problems.append(
            f"{path}.heads: {part.heads} heads do not divide the size {part.size}; "
            f"set the heads to {nearest}, or the size to {(part.size // part.heads + 1) * part.heads}"
        )
    positions = getattr(part, "positions", None)
    if positions and positions.kind == "sinusoidal" and part.size % 2:
        problems.append(
            f"{path}.size: sinusoidal positions are pairs of sin and cos, and {part.size} is odd; "
            f"set it to {part.size + 1}, or the positions to learnt"
        )
    if isinstance(part, RecurrentEncoderConfig) and part.residual and part.layers == 1:
        problems.append(f"{path}.residual: one layer has no residual connection; set {path}.layers to 2 or more")
    return problems


def _tie_problems(config: Config) -> list[str]:
    """Shared embeddings have one size and one vocabulary."""
    model, problems = config.model, []
    assert not isinstance(model, TaggerConfig)
    width, size = vector_size(model.decoder), model.decoder.size
    if model.tie in ("output", "all") and width != size:
        problems.append(
            f"model.tie: the output layer is {size} wide and the embedding {width}; "
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
                f"model.tie: the source's embedding is {vector_size(encoder)} wide and the target's {width}; "
                f"set {path}.{key} to {width}, or tie to {other}"
            )
    return problems


def _reads_text(config: Config, path: str) -> bool:
    """True if the encoder with this key reads a text."""
    places = [f"model.encoder[{number}]" for number in range(len(config.data.sources))]
    both = zip(places, config.data.sources, strict=True)
    return any(isinstance(source, TextConfig) for place, source in both if path in (place, "model.encoder"))


def _length_problems(config: Config) -> list[str]:
    """A table of learnt positions is as long as the longest sequence."""
    model, data, problems = config.model, config.data, []
    assert not isinstance(model, TaggerConfig)
    lengths = [source.max_length + isinstance(source, TextConfig) for source in data.sources]
    source = sum(lengths)
    if isinstance(model, EncoderDecoderConfig):
        for number, (path, encoder) in enumerate(encoder_paths(model)):
            apart = isinstance(model.encoder, list)
            needed = sum(lengths[number : number + 1]) if apart else source
            key = data.place(number) if apart else "data.source"
            problems += _longest_problems(path, encoder, needed, f"{key}.max_length")
    target, keys = data.target.max_length + 1, "data.target.max_length"
    if isinstance(model, LanguageModelConfig):  # it writes in pieces, so its answers may have any length
        target, keys = (data.window + 1, "data.window") if data.window else (target, keys)
    else:
        target, keys = max(target, config.decoding.max_length), f"{keys} and decoding.max_length"
    if isinstance(model, ConcatenatedConfig):
        target, keys = source + target, f"data.source.max_length, or {keys}"
    return [*problems, *_longest_problems("model.decoder", model.decoder, target, keys)]


def _longest_problems(path: str, part: EncoderConfig | DecoderConfig, needed: int, keys: str) -> list[str]:
    """`needed` positions follow from the `keys`."""
    longest = learnt_positions(part)
    if longest is None or longest >= needed:
        return []
    return [
        f"{path}.positions.longest: a table of {longest} learnt positions, but sequences may be {needed} tokens "
        f"long; set it to {needed}, or lower {keys}"
    ]


def _made(encoder: EncoderConfig) -> str:
    if not isinstance(encoder, RecurrentEncoderConfig):
        return encoder.kind
    return f"{encoder.size} x 2 directions" if encoder.bidirectional else "one direction"
