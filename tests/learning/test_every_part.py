"""Each encoder, context and kind of model learns, from a drawn and printed seed."""

from __future__ import annotations

import random

import pytest
from parts import BLOCK, DECODERS, ENCODERS, GRU, PLAIN, attending, encoder_decoder
from tasks import ENOUGH, learnt

from antiphon.config.networks import ConcatenatedConfig
from antiphon.models import build

SLOW = 0.003  # a rate for convolutions and Transformers


def test_every_encoder_is_here() -> None:
    """Without an encoder tokens have no places, so there is no order to learn."""
    assert {*ENCODERS, "none"} == set(build.ENCODERS)


@pytest.mark.parametrize("encoder", [encoder for encoder in ENCODERS if encoder != "gru"])
def test_every_encoder_learns(encoder: str) -> None:
    """A GRU does in test_every_pair.py."""
    rate = SLOW if encoder in ("cnn", "transformer") else 0.008
    assert learnt(attending(ENCODERS[encoder], DECODERS["bahdanau"], score="concat"), rate=rate) >= ENOUGH


@pytest.mark.parametrize("encoder", ["gru", "transformer"])
def test_a_transformer_decoder_learns(encoder: str) -> None:
    assert learnt(encoder_decoder(ENCODERS[encoder], {"kind": "multi-head"}, BLOCK), rate=SLOW) >= ENOUGH


def test_hard_attention_learns_where_to_look() -> None:
    """It learns from its reward alone: no gradient passes through a sample."""
    model = attending(GRU, DECODERS["luong"], score="bilinear", alignment="hard")
    assert learnt(model, tasks=["copy", "reverse"]) >= ENOUGH


@pytest.mark.parametrize("kind", ["last", "mean", "max"])
def test_one_vector_is_enough_for_short_strings_that_were_seen(kind: str) -> None:
    feed = random.choice(["start", "every-step", "both"])
    print(feed)
    model = encoder_decoder(GRU, {"kind": kind, "feed": feed}, PLAIN)
    assert learnt(model, longest=3, unseen=False) >= ENOUGH


@pytest.mark.parametrize(("decoder", "rate"), [(PLAIN, 0.008), (BLOCK, SLOW)], ids=["plain", "transformer"])
def test_one_network_reads_and_writes(decoder: dict[str, object], rate: float) -> None:
    model = ConcatenatedConfig.model_validate({"decoder": decoder})
    assert learnt(model, rate=rate, longest=3, unseen=False) >= ENOUGH
