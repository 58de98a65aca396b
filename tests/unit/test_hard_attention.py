"""Hard attention: what is drawn, the moving baseline, and that REINFORCE has the gradient it claims.

The last is shown without chance: on models so small that every sequence of looks can be listed, the gradient of the
training loss, averaged over all of them, is the gradient of the exact expectation.
"""
# B batch, Q queries, S source steps, T target steps

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest
import torch
from tiny_models import fill
from torch import Tensor

from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.schema import TrainingConfig
from antiphon.data.batches import Batch
from antiphon.data.tokenizers import EOS, PAD, SOS
from antiphon.models.attention import HardAlignment, SampledAlignment
from antiphon.models.build import build_model
from antiphon.models.model import EncoderDecoder
from antiphon.sequence import Sequence
from antiphon.training.checkpoints import Checkpoints, Progress
from antiphon.training.optimizers import build_optimizer
from antiphon.training.step import Loss, cross_entropy, hard_alignment, training_step

# ---------------------------------------------------------------- what is drawn

SCORES = torch.tensor([[[0.0, 1.0, -1.0, 9.0], [2.0, 0.5, 0.5, 0.0]], [[0.3, 0.3, -2.0, 0.3], [1.0, 1.0, 3.0, 3.0]]])
MASK = torch.tensor([[True, True, True, False], [True, True, True, True]])


def hard(decay: float = 0.9, entropy: float = 0.01) -> HardAlignment:
    return HardAlignment(decay=decay, entropy=entropy)


def softmax(scores: list[float]) -> list[float]:
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


def queries() -> Iterator[tuple[int, int, list[float]]]:
    """Row, query and the scores of its real positions."""
    for row, real in enumerate(MASK.sum(1).tolist()):
        for query, scores in enumerate(SCORES[row].tolist()):
            yield row, query, scores[:real]


def test_in_use_the_best_real_position_has_all_the_weight() -> None:
    """Of equally good ones the first. The 9.0 is padding."""
    aligned = hard().eval()(SCORES, MASK)
    best = [[[0, 1, 0, 0], [1, 0, 0, 0]], [[1, 0, 0, 0], [0, 0, 1, 0]]]
    assert aligned.weights.tolist() == best
    assert aligned.sampled is None


def test_a_draw_is_one_position_with_its_log_probability_and_entropy() -> None:
    torch.manual_seed(1)
    aligned = hard().double()(SCORES.double(), MASK)
    assert aligned.weights.dtype == torch.float64
    assert aligned.sampled is not None
    for row, query, scores in queries():
        weights, probs = aligned.weights[row, query].tolist(), softmax(scores)
        assert sorted(weights) == [0.0, 0.0, 0.0, 1.0]
        assert float(aligned.sampled.log_probs[row, query]) == pytest.approx(math.log(probs[weights.index(1.0)]))
        entropy = -sum(p * math.log(p) for p in probs)
        assert float(aligned.sampled.entropy[row, query]) == pytest.approx(entropy)


def test_draws_follow_the_softmax_and_padding_is_never_drawn() -> None:
    """20,000 draws a query; the tolerance is five standard deviations."""
    torch.manual_seed(1)
    times = 20_000
    drawn = hard()(SCORES.repeat(1, times, 1), MASK).weights.reshape(2, times, 2, 4).mean(dim=1)
    for row, query, scores in queries():
        for share, p in zip(drawn[row, query].tolist(), softmax(scores), strict=False):
            assert share == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / times))
    assert drawn[0, :, 3].tolist() == [0.0, 0.0]


def test_a_position_without_a_chance_among_real_ones_is_still_better_than_padding() -> None:
    scores = torch.tensor([[[-1e30, -1e30, 1e30]]])
    for _ in range(50):
        aligned = hard()(scores, torch.tensor([[True, True, False]]))
        assert float(aligned.weights[0, 0, 2]) == 0.0
        assert float(aligned.sampled.entropy) == pytest.approx(math.log(2))


def test_draws_come_from_the_generator_that_checkpoints_keep() -> None:
    alignment = hard()
    state = torch.get_rng_state()
    one, other = (alignment(SCORES.repeat(1, 50, 1), MASK).weights for _ in range(2))
    torch.set_rng_state(state)
    again = alignment(SCORES.repeat(1, 50, 1), MASK).weights
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_no_gradient_passes_through_a_draw_and_none_is_lost_to_padding() -> None:
    scores = SCORES.clone().requires_grad_()
    aligned = hard()(scores, MASK)
    assert aligned.sampled is not None
    assert not aligned.weights.requires_grad
    (aligned.sampled.log_probs + aligned.sampled.entropy).sum().backward()
    assert scores.grad is not None
    assert scores.grad[0, :, 3].tolist() == [0.0, 0.0]
    assert bool(torch.isfinite(scores.grad).all())
    assert bool((scores.grad[MASK.unsqueeze(1).expand_as(SCORES)] != 0).all())


def test_draws_of_steps_are_joined() -> None:
    first, second = (SampledAlignment(torch.full((2, n), float(n)), torch.full((2, n), -float(n))) for n in (1, 2))
    joined = SampledAlignment.concat([first, second])
    assert joined is not None
    assert joined.log_probs.tolist() == [[1, 2, 2]] * 2
    assert joined.entropy.tolist() == [[-1, -2, -2]] * 2
    assert SampledAlignment.concat([None, None]) is None


# ---------------------------------------------------------------- models small enough to list everything

KINDS = {
    "bahdanau": {"kind": "bahdanau", "cell": "rnn"},
    "luong": {"kind": "luong", "cell": "rnn"},
    "luong, fed": {"kind": "luong", "cell": "rnn", "input_feeding": True},
}
# Two sentences: three positions read and two words said; two read and one said. The rest is padding.
BATCH = Batch(
    source=Sequence.of_ids([[4, 5, EOS], [6, EOS]], PAD),
    inputs=torch.tensor([[SOS, 4], [SOS, PAD]]),
    outputs=Sequence.of_ids([[4, EOS], [EOS]], PAD),
)
LOOKS = [torch.tensor([[a, b], [c, 0]]) for a, b, c in product(range(3), range(3), range(2))]
PLAIN = TrainingConfig()


class Forced(HardAlignment):
    """Looks where it is told; what it hands out about its draws is not touched."""

    positions: Tensor  # [B, T]
    step: int

    def sample(self, scores: Tensor, padding: Tensor) -> Tensor:
        steps = scores.size(1)
        self.step += steps
        told = self.positions[:, self.step - steps : self.step]
        assert not bool(padding.expand_as(scores).gather(2, told.unsqueeze(2)).any())
        return told


@dataclass(frozen=True)
class Tiny:
    """A model in double precision with weights from a formula, and the alignment that can be forced."""

    model: EncoderDecoder
    alignment: Forced
    baseline: float = 0.0

    def look(self, positions: Tensor) -> None:
        """The next pass looks there, with the baseline as it was."""
        self.alignment.positions, self.alignment.step = positions, 0
        self.alignment.baseline.fill_(self.baseline)

    def chances(self, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log π(a), log p(y | x, a) and Σ H of the batch, each a number that can be differentiated."""
        self.look(positions)
        step, real = self.model(BATCH.source, BATCH.inputs), BATCH.outputs.mask
        log_probs = torch.log_softmax(step.logits, dim=-1).gather(2, BATCH.outputs.values.unsqueeze(2)).squeeze(2)
        assert step.sampled is not None
        return step.sampled.log_probs[real].sum(), log_probs[real].sum(), step.sampled.entropy[real].sum()

    def loss(self, positions: Tensor, config: TrainingConfig = PLAIN) -> Loss:
        """The loss of training for these samples."""
        self.look(positions)
        return training_step(self.model, BATCH, config).loss

    def gradient(self, value: Tensor) -> dict[str, Tensor]:
        names, parameters = zip(*self.model.named_parameters(), strict=True)
        return dict(zip(names, torch.autograd.grad(value, parameters, materialize_grads=True), strict=True))


def real(kind: str, score: str = "dot") -> EncoderDecoder:
    """In double precision, with weights from a formula, in training: it draws where it looks."""
    config = EncoderDecoderConfig.model_validate(
        {
            "encoder": {"kind": "rnn", "embedding": 2, "size": 3, "bidirectional": False, "dropout": 0.0},
            "context": {"kind": "attention", "score": score, "alignment": "hard"},
            "decoder": {**KINDS[kind], "embedding": 2, "size": 3, "dropout": 0.0},
        }
    )
    model = build_model(config, source_tokens=7, target_tokens=5).double()
    assert isinstance(model, EncoderDecoder)
    fill(model, scale=1.3)
    return model.train()


def tiny(kind: str, *, baseline: float = 0.0, entropy: float = 0.0, decay: float = 0.9, score: str = "dot") -> Tiny:
    model, alignment = real(kind, score), Forced(decay=decay, entropy=entropy).double()
    model.decoder.context.alignment = alignment
    return Tiny(model, alignment, baseline)


def averaged_gradient(tiny: Tiny) -> dict[str, Tensor]:
    """Σ_a π(a) ∇ loss(a): what training follows on average."""
    total: dict[str, Tensor] = {}
    for positions in LOOKS:
        chance = tiny.chances(positions)[0].detach().exp()
        for name, part in tiny.gradient(tiny.loss(positions).total).items():
            total[name] = total.get(name, torch.zeros(())) + chance * part
    return total


def expected_log_likelihood(tiny: Tiny) -> Tensor:
    """Σ_a π(a) log p(y | x, a), by listing every a."""
    terms = []
    for positions in LOOKS:
        log_chance, log_likelihood, _ = tiny.chances(positions)
        terms.append(log_chance.exp() * log_likelihood)
    return torch.stack(terms).sum()


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=0.0, atol=1e-8, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("kind", KINDS)
def test_every_sequence_of_looks_is_listed(kind: str) -> None:
    """Their probabilities have the sum 1, none is certain, and it matters for every word where one looks."""
    model = tiny(kind)
    chances = [model.chances(positions) for positions in LOOKS]
    assert sum(log_chance.exp().item() for log_chance, _, _ in chances) == pytest.approx(1.0, abs=1e-12)
    assert max(log_chance.exp().item() for log_chance, _, _ in chances) < 0.5
    assert len({round(log_likelihood.item(), 9) for _, log_likelihood, _ in chances}) == len(LOOKS)


@pytest.mark.parametrize("baseline", [0.0, -1.7, 40.0])
@pytest.mark.parametrize("kind", KINDS)
def test_reinforce_is_unbiased(kind: str, baseline: float) -> None:
    """The average gradient is that of -E[log p(y | x, a)], whatever the baseline."""
    model = tiny(kind, baseline=baseline)
    expected = model.gradient(-expected_log_likelihood(model))
    assert all(bool((gradient != 0).any()) for gradient in expected.values())
    assert_same(averaged_gradient(model), expected)


@pytest.mark.parametrize("score", ["bilinear", "additive"])
def test_it_is_unbiased_for_the_weights_of_a_score(score: str) -> None:
    """They learn from nothing else: without REINFORCE their gradient is 0."""
    model = tiny("bahdanau", baseline=-0.8, score=score)
    expected = model.gradient(-expected_log_likelihood(model))
    assert_same(averaged_gradient(model), expected)
    for positions in LOOKS:
        of_words = model.gradient(model.chances(positions)[1])
        for name in (name for name in expected if ".score." in name):
            assert bool((expected[name] != 0).any())
            assert not bool(of_words[name].any())


@pytest.mark.parametrize("entropy", [0.3, 2.0])
def test_the_entropy_is_part_of_what_is_minimised(entropy: float) -> None:
    """Without input feeding no look changes a later entropy: the average is the gradient of -E[log p] - λ Σ H."""
    model = tiny("luong", baseline=-1.1, entropy=entropy)
    entropies = model.chances(LOOKS[0])[2]
    assert all(model.chances(positions)[2].item() == pytest.approx(entropies.item()) for positions in LOOKS)
    assert_same(averaged_gradient(model), model.gradient(-expected_log_likelihood(model) - entropy * entropies))


@pytest.mark.parametrize("kind", ["bahdanau", "luong, fed"])
def test_where_looks_change_later_entropies_their_gradient_is_that_at_the_draws(kind: str) -> None:
    model = tiny(kind, baseline=-1.1, entropy=0.5)
    at_the_draws = torch.zeros((), dtype=torch.float64)
    for positions in LOOKS:
        log_chance, _, entropies = model.chances(positions)
        at_the_draws = at_the_draws + log_chance.detach().exp() * entropies
    assert_same(averaged_gradient(model), model.gradient(-expected_log_likelihood(model) - 0.5 * at_the_draws))


# ---------------------------------------------------------------- the loss, number by number, and the baseline


def written_out(model: Tiny, positions: Tensor) -> float:
    """-Σ_t log p(y_t) - Σ_t (R_t - b n_t) log π(a_t) - λ Σ_t H_t"""
    model.look(positions)
    step, total = model.model(BATCH.source, BATCH.inputs), 0.0
    for row, outputs in enumerate([[4, EOS], [EOS]]):
        said = [torch.log_softmax(step.logits[row, t], 0)[word].item() for t, word in enumerate(outputs)]
        for t, log_prob in enumerate(said):
            to_come = said[t:]
            advantage = sum(to_come) - model.baseline * len(to_come)
            log_chance, entropy = step.sampled.log_probs[row, t].item(), step.sampled.entropy[row, t].item()
            total -= log_prob + advantage * log_chance + model.alignment.entropy_weight * entropy
    return total


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_its_formula(kind: str) -> None:
    model = tiny(kind, baseline=-0.6, entropy=0.7)
    for positions in LOOKS:
        expected = written_out(model, positions)
        assert model.loss(positions).total.item() == pytest.approx(expected, abs=1e-12)


def test_reported_losses_compare_with_soft_attention_and_smoothing_is_for_words_only() -> None:
    model = tiny("bahdanau", baseline=-0.6, entropy=0.7)
    model.look(LOOKS[5])
    words = cross_entropy(model.model(BATCH.source, BATCH.inputs).logits, BATCH.outputs, 0.3)
    plain, smooth = model.loss(LOOKS[5]), model.loss(LOOKS[5], TrainingConfig(label_smoothing=0.3))
    assert (plain.count, smooth.count) == (3, 3)
    assert (plain.plain.item(), smooth.plain.item()) == (words.plain.item(), words.plain.item())
    about_looks = plain.total.item() - words.plain.item()
    assert smooth.total.item() == pytest.approx(words.total.item() + about_looks)
    assert words.total.item() != pytest.approx(words.plain.item())


def test_the_baseline_is_a_moving_average_of_the_log_probability_of_a_word() -> None:
    """b ← 0.75 b + 0.25 mean, once a batch, after b was used."""
    model = tiny("luong", decay=0.75)
    for positions in LOOKS[:6]:
        expected = written_out(model, positions)
        loss = model.loss(positions)
        assert loss.total.item() == pytest.approx(expected)
        moved = 0.75 * model.baseline + 0.25 * -loss.plain.item() / 3  # three words are said
        assert model.alignment.baseline.item() == pytest.approx(moved)
        model = replace(model, baseline=moved)
    assert model.baseline < -0.5


def test_a_batch_that_is_not_a_number_does_not_spoil_the_baseline() -> None:
    alignment = hard(decay=0.5)
    for mean in (-2.0, math.nan, -math.inf, -4.0):
        alignment.update_baseline(torch.tensor(mean))
    assert float(alignment.baseline) == -2.5


def test_the_baseline_is_saved_with_the_weights() -> None:
    one, other = hard(), hard()
    one.update_baseline(torch.tensor(-3.0))
    assert list(one.state_dict()) == ["baseline"]
    other.load_state_dict(one.state_dict())
    assert float(other.baseline) == float(one.baseline) == pytest.approx(-0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_training_goes_on_exactly_from_a_checkpoint(kind: str, tmp_path: Path) -> None:
    """The same draws, the same baseline and so the same weights, to the last bit."""
    torch.manual_seed(1)
    model = real(kind)
    optimizer = build_optimizer(PLAIN, model)

    def updates(count: int) -> dict[str, Tensor]:
        for _ in range(count):
            model.zero_grad()
            training_step(model, BATCH, PLAIN).loss.backward()
            optimizer.step(PLAIN.learning_rate)
        return {name: tensor.clone() for name, tensor in model.state_dict().items()}

    before = updates(3)
    checkpoint = Checkpoints(tmp_path).save(model, optimizer, Progress(update=3))
    after = updates(3)
    checkpoint.restore(model, optimizer)
    again = updates(3)
    assert "decoder.context.alignment.baseline" in after
    for name, tensor in after.items():
        assert torch.equal(tensor, again[name]), name
        assert not torch.equal(tensor, before[name]), name
    checkpoint.restore(model, optimizer)
    torch.manual_seed(99)
    assert any(not torch.equal(tensor, after[name]) for name, tensor in updates(3).items())  # draws matter


def test_the_configuration_sets_decay_and_entropy() -> None:
    context = {"kind": "attention", "alignment": {"kind": "hard", "baseline": 0.5, "entropy": 0.25}}
    model = build_model(EncoderDecoderConfig.model_validate({"context": context}), source_tokens=7, target_tokens=5)
    alignment = hard_alignment(model)
    assert (alignment.decay, alignment.entropy_weight, float(alignment.baseline)) == (0.5, 0.25, 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_in_use_nothing_is_drawn_and_nothing_moves(kind: str) -> None:
    model = tiny(kind, baseline=-1.0)
    model.look(LOOKS[0])
    model.model.eval()
    one, again = (model.model(BATCH.source, BATCH.inputs) for _ in range(2))
    assert one.sampled is None
    assert torch.equal(one.logits, again.logits)
    assert one.weights.sum(-1).tolist() == [[1.0, 1.0]] * 2
    assert set(one.weights.flatten().tolist()) == {0.0, 1.0}
    assert float(model.alignment.baseline) == -1.0
