"""The task that invented data look like, and the settings that `antiphon init` starts from for it."""

from __future__ import annotations

import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from antiphon.autoconfig.file_tables import image_size
from antiphon.autoconfig.settings import MOST_UPDATES, Amount, plan_updates, start_from
from antiphon.autoconfig.suggest import Suggestion, pair_config, suggest_config
from antiphon.autoconfig.tasks import Evidence, find_task
from antiphon.autoconfig.text_form import case_reason, mixes_forms
from antiphon.config.checks import check_config
from antiphon.config.load import read_config, recipe_names
from antiphon.config.schema import Config, DataConfig, ScheduleConfig, TrainingConfig
from antiphon.config.yaml_text import explained_yaml, parse_yaml
from antiphon.data.pairs import Pair

ROWS = 240
NAMES = ["anna", "boris", "carla", "dmitri", "elena", "fatima", "georg", "hanna", "igor", "jana"]
NOUNS = ["garden", "river", "market", "window", "teacher", "engine", "letter", "bridge", "winter", "doctor", "island"]
VERBS = ["sees", "finds", "paints", "sells", "repairs", "forgets", "admires"]
ANSWERS = [f"there is no {noun} near the {other}" for noun in NOUNS for other in NOUNS[:3]]
ASKING = [*ANSWERS[:20], *(f"do you mean the {noun} ?" for noun in NOUNS[:10])]
LABELS = ["good", "bad", "unclear"]


def word(number: int) -> str:
    """A different short word for each number."""
    return "".join("abdefghikl"[int(digit)] for digit in str(number * 7919 + 1000))


def sentence(number: int, length: int = 8) -> str:
    parts = [NAMES[number % 10], VERBS[number % 7], "the", NOUNS[number % 11], "of", word(number), "near", "a"]
    return " ".join((parts * (1 + length // 8))[:length])


def foreign(text: str) -> str:
    """The same words in another language."""
    return " ".join(part[::-1] + "os" for part in text.split())


def actions(number: int) -> str:
    return " ".join([VERBS[number % 7].upper()] * (number % 9 + 1) + ["STOP"])


def speech(text: str) -> str:
    """A label for each word."""
    return " ".join("NVD"[len(part) % 3] for part in text.split())


def greek(text: str) -> str:
    return text.translate(str.maketrans("abcdefghijklmnopqrstuvwxyz", "αβγδεζηθικλμνξοπρστυφχψωάέ"))


Row = tuple[tuple[str, ...], str]
DATA: dict[str, tuple[str | None, tuple[str, ...], Callable[[int], Row]]] = {
    "marked turns": ("dialogue", ("text",), lambda n: ((f"{sentence(n)} <turn> {word(n)}",), sentence(n + 2))),
    "speakers": ("dialogue", ("text",), lambda n: ((f"User: {word(n)} Bot: {sentence(n)}",), sentence(n + 2))),
    "one speaker": (None, ("text",), lambda n: ((f"System: {sentence(n)}",), sentence(n + 2))),
    "answers that recur": ("dialogue", ("text",), lambda n: ((f"do you like {sentence(n)} ?",), ASKING[n % 30])),
    "questions that have answers": (None, ("text",), lambda n: ((f"is it {sentence(n)} ?",), ANSWERS[n % 30])),
    "long to short": ("summarise", ("text",), lambda n: ((sentence(n, 60),), f"{NAMES[n % 10]} and {word(n)} news")),
    "phones": ("g2p-small", ("text",), lambda n: ((word(n),), " ".join(word(n).upper()))),
    "commands": ("scan-lstm", ("text",), lambda n: ((f"{VERBS[n % 7]} {NAMES[n % 5]}",), actions(n))),
    "two scripts": ("transliterate", ("text",), lambda n: ((word(n),), greek(word(n)))),
    "words in another script": (None, ("text",), lambda n: ((word(n),), greek(word(n * n + 5)))),
    "words in capitals": (None, ("text",), lambda n: ((word(n),), word(n).upper())),
    "tags": ("transliterate", ("text",), lambda n: ((f"{word(n)} V;PST;{n % 3}",), f"{word(n)}te")),
    "tags apart": ("transliterate", ("text", "text"), lambda n: ((word(n), f"N;PL;{n % 2}"), f"{word(n)}n")),
    "sentence pairs": ("entail", ("text", "text"), lambda n: ((sentence(n), sentence(n + 3)), LABELS[n % 3])),
    "parts of speech": ("tag", ("text",), lambda n: ((sentence(n),), speech(sentence(n)))),
    "labels": ("entail", ("text",), lambda n: ((sentence(n),), LABELS[n % 2])),
    "question and passage": ("answer", ("text", "text"), lambda n: ((f"{sentence(n, 30)} .", "who is it ?"), word(n))),
    "few sentences in another language": (None, ("text",), lambda n: ((sentence(n),), foreign(sentence(n)))),
    "reversed words": (None, ("text",), lambda n: ((word(n),), word(n)[::-1])),
    "a paraphrase": (None, ("text",), lambda n: ((sentence(n),), f"{sentence(n)} now")),
    "captions": ("caption", ("image",), lambda n: ((f"{n}.png",), sentence(n))),
    "names of pictures": (None, ("image",), lambda n: ((f"{n}.png",), NAMES[n % 10])),
    "a question about a picture": ("see-answer", ("image", "text"), lambda n: ((f"{n}.png", "is it ?"), LABELS[n % 3])),
    "spoken digits": ("speak", ("audio",), lambda n: ((f"{n}.wav",), NAMES[n % 10])),
    "spoken sentences": ("dictate", ("audio",), lambda n: ((f"{n}.wav",), sentence(n))),
    "vectors with labels": ("watch", ("features",), lambda n: ((f"{n}.npy",), f"movement {n % 5}")),
    "vectors with words": ("dictate", ("features",), lambda n: ((f"{n}.npy",), sentence(n))),
    "videos": ("video", ("frames",), lambda n: ((f"{n}.npy",), sentence(n))),
}


def pairs_of(name: str, rows: int = ROWS) -> tuple[list[Pair], tuple[str, ...]]:
    _, kinds, row = DATA[name]
    return [Pair(*row(number), number + 1) for number in range(rows)], kinds


@pytest.mark.parametrize("name", DATA)
def test_the_task_of_some_data(name: str) -> None:
    pairs, kinds = pairs_of(name)
    task = find_task(Evidence.of(pairs, kinds, len(pairs)))
    assert (task.recipe if task else None) == DATA[name][0]


def test_wide_pictures_are_lines_of_text() -> None:
    pairs, _ = pairs_of("captions")
    task = find_task(Evidence.of(pairs, ["image"], ROWS, wide=True))
    assert task is not None
    assert (task.name, task.recipe) == ("lines of text in pictures", "read")


@pytest.mark.parametrize(
    ("name", "recipe"), [("few sentences in another language", "translate"), ("phones", "g2p"), ("labels", "entail")]
)
def test_the_amount_of_data_has_a_say(name: str, recipe: str) -> None:
    pairs, kinds = pairs_of(name)
    task = find_task(Evidence.of(pairs, kinds, 100_000))
    assert task is not None
    assert task.recipe == recipe


def test_the_recipe_is_named_and_read_from_its_file() -> None:
    pairs, kinds = pairs_of("marked turns")
    reasons: list[str] = []
    base = start_from(Evidence.of(pairs, kinds, ROWS), reasons)
    assert base == read_config("dialogue")
    assert reasons == [
        "this looks like dialogue (turns are marked in 100% of the sources); starting from the recipe `dialogue`"
    ]


# Settings.

TEXTS = [name for name, (_, kinds, _) in DATA.items() if set(kinds) == {"text"}]


def suggested(name: str, examples: int = ROWS) -> tuple[Config, list[str]]:
    """The settings for these data, which have to be sound and to read back equal."""
    pairs, kinds = pairs_of(name)
    sections = [{"kind": "text", "column": number} for number in range(len(kinds))]
    source = sections if len(sections) > 1 else sections[0]
    data = {"train": "train.tsv", "source": source, "target": {"column": len(kinds)}}
    reasons: list[str] = []
    config = pair_config(DataConfig.model_validate(data), pairs, examples, reasons)
    assert check_config(config) == []
    assert Config.model_validate(parse_yaml(explained_yaml(config), "")[0]) == config
    return config, reasons


@pytest.mark.parametrize("examples", [200, 2_000, 20_000, 1_000_000])
@pytest.mark.parametrize("name", TEXTS)
def test_settings_suit_any_amount_of_data(name: str, examples: int) -> None:
    """They are sound; there are thousands of updates, batches of several examples, and small models for small data."""
    config, reasons = suggested(name, examples)
    training, model = config.training, config.model
    [planned] = [reason for reason in reasons if reason.startswith("training.epochs")]
    updates = int(planned.split("at most about ")[1].split(" updates")[0].replace(",", ""))
    assert 1_000 <= updates <= 1.1 * MOST_UPDATES or training.epochs == 1
    assert training.evaluate_every is not None
    assert 100 <= training.evaluate_every <= 500
    assert training.patience is None or training.patience * training.evaluate_every >= 2_000
    assert training.schedule.warmup <= updates / 5
    if examples == 200:
        assert (model.encoder if model.kind == "tagger" else model.decoder).size <= 64


def test_a_recipe_gives_its_model_and_search() -> None:
    config, recipe = suggested("marked turns", 20_000)[0], read_config("dialogue")
    assert config.model == recipe.model
    assert config.decoding.beam == recipe.decoding.beam
    assert (config.data.source.tokens, config.data.shared_vocabulary) == ("words", True)
    assert config.training.learning_rate == recipe.training.learning_rate


def test_the_mark_between_turns_is_that_of_the_data() -> None:
    marked, reasons = suggested("marked turns")
    assert marked.data.turns == "<turn>"
    said = 'data.turns "<turn>": it is between the turns of a source; `antiphon chat` joins turns with it'
    assert said in reasons
    speakers, reasons = suggested("speakers")
    assert speakers.data.turns is None
    assert any(reason.startswith("data.turns null: there is no mark such as <turn>, so") for reason in reasons)
    other, reasons = suggested("long to short")
    assert other.data.turns is None
    assert not any(reason.startswith("data.turns") for reason in reasons)


def test_what_does_not_fit_is_left_out() -> None:
    """One text has no matches with another; joint n-grams are of one text; two scripts share no vocabulary."""
    assert not suggested("labels")[0].model.matches
    assert suggested("sentence pairs")[0].model.matches
    assert suggested("tags")[0].decoding.joint > 0
    assert suggested("tags apart")[0].decoding.joint == 0
    config, _ = suggested("few sentences in another language", 100_000)
    assert (config.model.kind, config.model.decoder.kind) == ("encoder-decoder", "transformer")
    assert config.model.tie == ("all" if config.data.shared_vocabulary else "output")


@pytest.mark.parametrize(
    ("name", "metrics"),
    [
        ("phones", ["per", "exact_match"]),
        ("commands", ["exact_match", "token_accuracy"]),
        ("long to short", ["rouge_1", "rouge_2", "rouge_l"]),
        ("marked turns", ["bleu", "exact_match"]),
        ("labels", ["exact_match"]),
        ("two scripts", ["exact_match", "cer"]),
        ("reversed words", ["cer", "exact_match", "token_accuracy"]),
        ("a paraphrase", ["bleu", "chrf", "ter"]),
    ],
)
def test_metrics_fit_the_task(name: str, metrics: list[str]) -> None:
    assert suggested(name)[0].evaluation.metrics == metrics


def test_few_labels_are_words_and_long_texts_are_counted() -> None:
    config, reasons = suggested("labels", 24)
    assert config.data.target.tokens == "words"
    pairs = [*pairs_of("long to short", 39)[0], Pair((sentence(1, 900),), "anna", 40)]
    pair_config(DataConfig(train="train.tsv"), pairs, 40, reasons)
    assert any("max_length 400: longer ones (2.5%) are left out; the longest seen has 900" in each for each in reasons)


@pytest.mark.parametrize("kind", ["cosine", "inverse-sqrt"])
@pytest.mark.parametrize("examples", [10, 300, 30_000, 3_000_000])
def test_epochs_are_counted_in_updates(kind: str, examples: int) -> None:
    schedule = ScheduleConfig.model_validate({"kind": kind, "warmup": 4000})
    usual = TrainingConfig(epochs=7, batch_tokens=2048, schedule=schedule)
    planned = plan_updates(usual, Amount(examples, 10.0), [])
    per_epoch = -(-examples * 10 // planned.batch_tokens)
    assert planned.epochs * per_epoch >= 1_000
    assert planned.epochs == 1 or (planned.epochs - 1) * per_epoch < MOST_UPDATES
    assert (planned.patience is None) == (kind == "cosine")
    assert planned.schedule.warmup < planned.epochs * per_epoch
    assert planned.batch_tokens <= 2048


# Case, and Unicode forms.

CASED = [f"{sentence(n).capitalize()}" for n in range(40)]


@pytest.mark.parametrize(
    ("texts", "examples", "lower"),
    [
        (CASED, 40, True),
        (CASED, 50_000, False),
        ([text.lower() for text in CASED], 40, False),
        ([text.title() for text in CASED], 40, False),
        (["THE garden of the Doctor", "a DOCTOR in THE Garden", "the Garden"] * 20, 60, True),
        (["Anna", "Boris", "anna"] * 20, 60, False),
    ],
)
def test_lower_case_where_case_carries_little(texts: list[str], examples: int, lower: bool) -> None:
    assert bool(case_reason(texts, examples)) == lower


@pytest.mark.parametrize(
    ("texts", "mixed"),
    [(["café", "cafe\u0301"], True), (["café", "the"], False), (["cafe\u0301"], False), (["abc"], False)],
)
def test_composed_and_decomposed_characters(texts: list[str], mixed: bool) -> None:
    assert mixes_forms(texts) == mixed


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(rows: list[tuple[str, ...]]) -> Suggestion:
    Path("train.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    found = suggest_config(["train.tsv"])
    assert check_config(found.config) == []
    return found


@pytest.mark.usefixtures("here")
def test_sources_are_read_in_lower_case_but_answers_keep_theirs() -> None:
    found = init([(sentence(n).capitalize(), foreign(sentence(n)).capitalize()) for n in range(ROWS)])
    data = found.config.data
    assert not data.shared_vocabulary or not data.source.lowercase
    labels = init([(sentence(n).capitalize(), ["good", "bad"][n % 2]) for n in range(ROWS)])
    assert labels.config.data.source.lowercase
    assert any(reason.startswith("data.source.lowercase true: 100% of the texts") for reason in labels.reasons)
    assert any(reason.startswith("data.target.lowercase true: it shares its") for reason in labels.reasons)
    capitals = init([(sentence(n).capitalize(), ["Good", "Bad"][n % 2]) for n in range(ROWS)])
    assert not capitals.config.data.target.lowercase


@pytest.mark.usefixtures("here")
def test_mixed_forms_are_normalised_on_both_sides() -> None:
    found = init([(f"{word(n)}é" if n % 2 else f"{word(n)}e\u0301", greek(word(n))) for n in range(ROWS)])
    assert (found.config.data.source.normalization, found.config.data.target.normalization) == ("nfc", "nfc")
    assert any("normalization nfc" in reason for reason in found.reasons)


# Files.


def test_pictures_are_lines_where_their_width_follows_the_text() -> None:
    texts = {f"{n}.png": "12345"[: 1 + n % 4] for n in range(40)}
    lines = {cell: (20 + 20 * len(text), 32) for cell, text in texts.items()}
    photos = {cell: (48 + 16 * (number * 7 % 3), 32) for number, cell in enumerate(texts)}
    same = dict.fromkeys(texts, (64, 32))
    labels = {cell: NAMES[number % 10] for number, cell in enumerate(texts)}
    assert image_size(lines, texts, [])["width"] is None
    assert image_size(same, texts, [])["width"] is None
    assert image_size(photos, texts, [])["width"] is not None
    assert image_size(same, labels, [])["width"] is not None
    assert image_size(dict.fromkeys(labels, (128, 32)), labels, [])["width"] is None


def sound(path: Path, rate: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.zeros(rate // 10, np.int16).tobytes())


@pytest.mark.parametrize(
    ("rates", "rate", "mels"), [([8000, 8000, 44_100], 8000, 40), ([11_025], 11_025, 64), ([22_050], 16_000, 80)]
)
def test_sounds_keep_their_own_rate(here: Path, rates: list[int], rate: int, mels: int) -> None:
    for number in range(30):
        sound(here / f"{number}.wav", rates[number % len(rates)])
    found = init([("audio", "text"), *((f"{number}.wav", NAMES[number % 3]) for number in range(30))])
    [source] = found.config.data.sources
    assert (source.rate, source.mels, source.step) == (rate, mels, 5)
    assert any("this looks like speech to text" in reason for reason in found.reasons)
    assert any(reason.startswith("data.source.rate") for reason in found.reasons) == (rate < 16_000)


def test_digits_in_a_line(here: Path) -> None:
    """Lines of text in pictures: CTC, errors of characters and whole answers, thousands of updates."""
    texts = [str(7919 * number)[: 1 + number % 4] for number in range(1, 61)]
    for number, text in enumerate(texts):
        Image.new("L", (20 + 24 * len(text), 32), number).save(here / f"{number}.png")
    config = init([("image", "text"), *((f"{number}.png", text) for number, text in enumerate(texts))]).config
    assert (config.data.sources[0].width, config.model.ctc) == (None, read_config("read").model.ctc)
    assert config.evaluation.metrics == ["cer", "exact_match"]
    assert config.training.patience is None


def test_a_small_model_of_pictures_and_questions_has_states_of_one_size(here: Path) -> None:
    """The recipe concatenates the states of its encoders, which are made smaller for few examples."""
    Image.new("RGB", (32, 32)).save(here / "0.png")
    rows = [("0.png", f"is there a {word(number)} ?", LABELS[number % 3]) for number in range(40)]
    found = init([("image", "question", "answer"), *rows])
    assert any("see-answer" in reason for reason in found.reasons)
    assert any("model.decoder.size 256" in reason for reason in found.reasons)
    assert found.config.model.encoder == read_config("see-answer").model.encoder


def test_every_rule_names_a_recipe() -> None:
    assert {recipe for recipe, *_ in DATA.values() if recipe} <= set(recipe_names())


@pytest.mark.parametrize("labelled", [True, False])
def test_a_file_of_labels_is_always_tagged(labelled: bool) -> None:
    """Few words for each label: in a table they may mean something else."""
    rows = [("the dog sees", "DET NOUN VERB"), ("a cat", "DET NOUN"), ("a dog eats", "DET NOUN VERB")]
    pairs = [Pair((rows[number % 3][0],), rows[number % 3][1], number + 1) for number in range(300)]
    task = find_task(Evidence.of(pairs, ["text"], len(pairs), labelled=labelled))
    assert (task is not None and task.recipe == "tag") == labelled
