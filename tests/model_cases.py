"""The models that can be configured, at size 8: every two parts meet in some model, and each part has its options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, get_args

from tiny_models import choices

from antiphon.config.networks import (
    AttentionConfig,
    Cell,
    ConcatenatedConfig,
    ConvolutionalEncoderConfig,
    EncoderDecoderConfig,
    LanguageModelConfig,
    ModelConfig,
    RecurrentEncoderConfig,
    StaticContextConfig,
    TaggerConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
)

Part = dict[str, Any]
Cases = dict[str, ModelConfig]

CELLS = get_args(Cell)
TRANSFORMER: Part = {"kind": "transformer", "size": 8, "layers": 1, "heads": 2, "feedforward": 11, "dropout": 0.0}


def recurrent_encoder(kind: str, **values: Any) -> Part:  # noqa: ANN401
    """Four values in each direction: states of 8."""
    return {"kind": kind, "embedding": 5, "size": 4, "dropout": 0.0, **values}


def recurrent_decoder(kind: str, cell: str, **values: Any) -> Part:  # noqa: ANN401
    return {"kind": kind, "cell": cell, "embedding": 6, "size": 8, "dropout": 0.0, **values}


# The parts without their options, each under its name.
ENCODERS: dict[str, Part] = {
    **{kind: recurrent_encoder(kind) for kind in choices(RecurrentEncoderConfig, "kind")},
    "cnn": {"kind": "cnn", "embedding": 5, "size": 8, "layers": 1, "dropout": 0.0},
    "transformer": TRANSFORMER,
    "none": {"kind": "none", "size": 8, "dropout": 0.0},
}
ATTENTIONS: dict[str, Part] = {
    f"{score}-{alignment}": {"kind": "attention", "score": score, "alignment": alignment}
    for score, alignment in product(choices(AttentionConfig, "score"), choices(AttentionConfig, "alignment"))
}
STATICS: dict[str, Part] = {
    f"{kind}-{feed}-{bridge}": {"kind": kind, "feed": feed, "bridge": bridge}
    for kind, feed, bridge in product(*(choices(StaticContextConfig, key) for key in ("kind", "feed", "bridge")))
    if (feed, bridge) != ("every-step", "direct")  # nothing to hand over directly
}
MULTI_HEAD: dict[str, Part] = {"multi-head": {"kind": "multi-head"}}
LOOKING: dict[str, Part] = {
    **{f"bahdanau-{cell}": recurrent_decoder("bahdanau", cell) for cell in CELLS},
    **{f"luong-{cell}": recurrent_decoder("luong", cell) for cell in CELLS},
    **{f"luong-fed-{cell}": recurrent_decoder("luong", cell, input_feeding=True) for cell in CELLS},
}
PLAIN: dict[str, Part] = {f"plain-{cell}": recurrent_decoder("plain", cell) for cell in CELLS}
TRANSFORMERS: dict[str, Part] = {"transformer": TRANSFORMER}
CONTEXTS = ATTENTIONS | STATICS | MULTI_HEAD
DECODERS = LOOKING | PLAIN | TRANSFORMERS
NETWORKS = PLAIN | TRANSFORMERS  # those that need no source


def encoder_decoder(encoder: Part, context: Part, decoder: Part, tie: str = "none") -> EncoderDecoderConfig:
    return EncoderDecoderConfig.model_validate({"encoder": encoder, "context": context, "decoder": decoder, "tie": tie})


def made_of(triples: Iterable[tuple[str, str, str]]) -> Cases:
    """The models of these encoders, contexts and decoders."""
    return {
        f"{encoder}_{context}_{decoder}": encoder_decoder(ENCODERS[encoder], CONTEXTS[context], DECODERS[decoder])
        for encoder, context, decoder in triples
    }


def in_turn(
    contexts: dict[str, Part], decoders: dict[str, Part], steps: tuple[int, ...]
) -> Iterator[tuple[str, str, str]]:
    """Every context with every decoder that can use it; each pair has its encoders, and all have their turn."""
    encoders = list(ENCODERS)
    for (row, context), (column, decoder) in product(enumerate(contexts), enumerate(decoders)):
        for step in steps:
            yield encoders[(row + column + step) % len(encoders)], context, decoder


def crossed() -> Cases:
    """Every two of encoder, context and decoder meet. All three in every way would be five times as many models."""
    return made_of(
        [
            *in_turn(ATTENTIONS, LOOKING, (0,)),
            *in_turn(STATICS, PLAIN, (0, 4)),  # four decoders: with one step some encoders would miss a context
            *in_turn(MULTI_HEAD, TRANSFORMERS, tuple(range(len(ENCODERS)))),
        ]
    )


def on_gru() -> Cases:
    """Every context with every decoder that can use it, on one encoder."""
    pairs = [*product(ATTENTIONS, LOOKING), *product(STATICS, PLAIN), *product(MULTI_HEAD, TRANSFORMERS)]
    return made_of(("gru", context, decoder) for context, decoder in pairs)


def with_some() -> Cases:
    """Every encoder with some decoders."""
    few = [("additive-soft", "bahdanau-gru"), ("last-both-dense", "plain-gru"), ("multi-head", "transformer")]
    return made_of((encoder, context, decoder) for encoder, (context, decoder) in product(ENCODERS, few))


def alone() -> Cases:
    """Language models, one network for source and target, and taggers with every encoder."""
    models = {"language-model": LanguageModelConfig, "concatenated": ConcatenatedConfig}
    networks: Cases = {
        f"{kind}_{network}": models[kind].model_validate({"decoder": NETWORKS[network]})
        for kind, network in product(models, NETWORKS)
    }
    labels = {"dropout": 0.0}
    taggers = {
        name: TaggerConfig.model_validate({"encoder": part, "decoder": labels}) for name, part in ENCODERS.items()
    }
    return networks | {f"tagger_{name}": config for name, config in taggers.items()}


def transformers(section: type[TransformerEncoderConfig] | type[TransformerDecoderConfig]) -> dict[str, Part]:
    """Two blocks, in every way to build them, and BART's way to enter the first."""
    keys = ("order", "norm", "activation", "positions")
    entered = {"positions": "learnt", "scale": False, "embedding_norm": True}
    return {
        "-".join(values): {**TRANSFORMER, "layers": 2, **dict(zip(keys, values, strict=True))}
        for values in product(*(choices(section, key) for key in keys))
        if not {"batch", "none"} <= set(values)  # few different states, and what is added to all alike is normed away
    } | {f"{order}-entered": {**TRANSFORMER, "order": order, **entered} for order in choices(section, "order")}


def encoder_options() -> Cases:
    """Both directions or one, one layer or two, with residuals; kernels; n-grams; all ways to build a block."""
    stacks = [(1, False), (2, False), (2, True)]
    recurrent = {
        f"{kind}-{'both' if both else 'left'}-{layers}{'-residual' if residual else ''}": recurrent_encoder(
            kind, size=4 if both else 8, bidirectional=both, layers=layers, residual=residual
        )
        for kind, both, (layers, residual) in product(CELLS, (True, False), stacks)
    }
    convolutional = {
        f"cnn-{positions}-{kernel}": {**ENCODERS["cnn"], "layers": 2, "positions": positions, "kernel": kernel}
        for positions, kernel in product(choices(ConvolutionalEncoderConfig, "positions"), (3, 5))
    }
    blocks = {f"transformer-{name}": part for name, part in transformers(TransformerEncoderConfig).items()}
    scaled = {f"{kind}-scaled": recurrent_encoder(kind, scale=True) for kind in CELLS}
    ngrams = {f"{name}-ngrams": {**part, "ngrams": {"lengths": [3, 5], "rows": 23}} for name, part in ENCODERS.items()}
    told = {"attended": ("additive-soft", "bahdanau-gru"), "last": ("last-both-dense", "plain-gru")}
    return {
        f"{encoder}_{way}": encoder_decoder(part, CONTEXTS[context], DECODERS[decoder])
        for encoder, part in (recurrent | scaled | convolutional | blocks | ngrams).items()
        for way, (context, decoder) in told.items()
    }


def decoder_options() -> Cases:
    """Two layers of every cell; three and one beside an encoder of two; all ways to build a block."""
    gru = ENCODERS["gru"]
    told = [*product(["bilinear-soft", "dot-hard"], LOOKING), *product(STATICS, PLAIN)]
    stacked = {
        f"two_{context}_{decoder}": encoder_decoder(gru, CONTEXTS[context], {**DECODERS[decoder], "layers": 2})
        for context, decoder in told
    }
    beside = {
        f"{layers}-beside-2_{context}": encoder_decoder(
            {**gru, "layers": 2}, STATICS[context], {**PLAIN["plain-lstm"], "layers": layers}
        )
        for layers, context in product((1, 3), STATICS)
    }
    blocks = {
        f"gru_transformer-{name}": encoder_decoder(gru, MULTI_HEAD["multi-head"], part)
        for name, part in transformers(TransformerDecoderConfig).items()
    }
    return stacked | beside | blocks


def options_alone() -> Cases:
    """The same for models without an encoder."""
    models = {"language-model": LanguageModelConfig, "concatenated": ConcatenatedConfig}
    stacked = {f"two-{name}": {**part, "layers": 2} for name, part in PLAIN.items()}
    blocks = {f"transformer-{name}": part for name, part in transformers(TransformerDecoderConfig).items()}
    return {
        f"{kind}_{network}": section.model_validate({"decoder": part})
        for kind, section in models.items()
        for network, part in (stacked | blocks).items()
    }


def tied() -> Cases:
    """Every two of output, target's table and source's table, and all three; tables of 8 everywhere."""
    pairs = [*product(["additive-soft"], LOOKING), *product(["last-both-dense"], PLAIN), ("multi-head", "transformer")]
    few = [("additive-soft", "bahdanau-gru"), ("multi-head", "transformer")]
    both = {
        f"{encoder}_{decoder}_{tie}": encoder_decoder(
            wide(ENCODERS[encoder]), CONTEXTS[context], wide(DECODERS[decoder]), tie
        )
        for encoder in ENCODERS
        for context, decoder in (pairs if encoder == "gru" else few)
        for tie in choices(EncoderDecoderConfig, "tie")[1:]
    }
    one = {
        f"{kind}_{network}_{tie}": section.model_validate({"decoder": wide(NETWORKS[network]), "tie": tie})
        for kind, section in (("language-model", LanguageModelConfig), ("concatenated", ConcatenatedConfig))
        for network in NETWORKS
        for tie in choices(section, "tie")[1:]
    }
    return both | one


def copying() -> Cases:
    """Decoders that copy words of the source, with soft weights, hard ones, and those of heads."""
    soft = product(["additive-soft"], [name for name in LOOKING if name.endswith(("-gru", "-lstm"))])
    hard = [("dot-hard", "bahdanau-gru"), ("dot-hard", "luong-fed-gru")]
    pairs = [*soft, *hard, ("multi-head", "transformer")]
    crossed = {
        f"{encoder}_{context}_{decoder}_copying": copies(
            encoder_decoder(ENCODERS[encoder], CONTEXTS[context], DECODERS[decoder])
        )
        for encoder, (context, decoder) in product(("gru", "transformer"), pairs)
    }
    blocks = encoder_decoder(ENCODERS["gru"], MULTI_HEAD["multi-head"], {**TRANSFORMER, "layers": 2, "order": "post"})
    one_table = encoder_decoder(wide(ENCODERS["gru"]), ATTENTIONS["additive-soft"], wide(LOOKING["luong-gru"]), "all")
    return {**crossed, "gru_two-blocks_copying": copies(blocks), "gru_all-tied_copying": copies(one_table)}


def copies(config: EncoderDecoderConfig) -> EncoderDecoderConfig:
    return config.model_copy(update={"copying": True})


def wide(part: Part) -> Part:
    """A part whose token vectors have its states' size; a Transformer's always have, and those without an encoder."""
    return part if part["kind"] in ("transformer", "none") else {**part, "embedding": 8}


CROSSED: Cases = crossed() | alone()
OPTIONS: Cases = encoder_options() | decoder_options() | options_alone() | tied() | copying()
CASES: Cases = CROSSED | OPTIONS

# For tests that need many steps: every decoder with every context on one encoder, and every encoder with some decoders.
STATES: Cases = (
    on_gru()
    | with_some()
    | {name: config for name, config in CASES.items() if name.startswith(("gru", "language-model", "concatenated"))}
)


def first_of_each() -> Cases:
    """For tests that write whole folders: every encoder with every decoder, every way to tie, every norm."""
    seen: set[tuple[str, ...]] = set()
    cases = {}
    for name, config in CASES.items():
        encoder = config.encoder.kind if isinstance(config, EncoderDecoderConfig) else ""
        parts = {
            (config.kind, encoder, config.decoder.kind),
            (config.kind, config.tie, config.decoder.kind),
            ("copying", str(getattr(config, "copying", False)), config.decoder.kind),
            *(("norm", getattr(part, "norm", "")) for part in (config.decoder, getattr(config, "encoder", None))),
        }
        if parts - seen:
            cases[name] = config
            seen |= parts
    return cases


FOLDERS: Cases = first_of_each()
