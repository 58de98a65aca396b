"""The task that some examples look like, and the recipe for it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from antiphon.autoconfig.header import script_of
from antiphon.autoconfig.text_profile import TextProfile, TokenChoice, choose_tokens
from antiphon.data.pairs import Pair
from antiphon.text import split_at_spaces

__all__ = ["Evidence", "LikelyTask", "find_mark", "find_task"]

SAMPLE = 2000
MAX_CLASSES, MIN_EXAMPLES = 100, 10  # a class has at least this many examples on average
LONG_WORDS = 30  # a source of fewer words on average is not summarised
MANY_WORDS = 50_000  # of a dictionary that has enough of them for the larger of two recipes
MIN_ALIKE = 0.4  # share of the pairs of sources with one first letter whose targets have one
NEARLY_ALL, MANY_MORE = 0.98, 3  # of the examples; words for each label
MANY_SENTENCES = 10_000  # with fewer pairs a Transformer learns little
SPEAKER = r"(^|\s)(user|system|customer|agent|bot|assistant|speaker ?\w)\s?:"
# One speaker alone may be the prefix of an e-mail or of a line in a log.
MARK = r"<turn>|__eou__|__eot__|<eou>|<eot>|<\|?(?:im_end|end_?of_?turn)\|?>"
TURN = re.compile(rf"{MARK}|{SPEAKER}.*{SPEAKER}", re.IGNORECASE | re.DOTALL)
BETWEEN = re.compile(rf"(?<=\S)\s*({MARK})(?=\s*\S)", re.IGNORECASE)
QUESTION = re.compile(r"[?？؟]\s*$|^\s*(who|what|where|when|why|how|which|is|are|does|do|did|can)\b", re.IGNORECASE)
TAG = re.compile(r"(^|\s|[;,|])[A-Z0-9]+([;,.|:=+][A-Z0-9]+)+|<\w+>")  # V;PST;3;SG


@dataclass(frozen=True)
class Evidence:
    """The first examples: the kinds of the sources, their texts, and the targets."""

    kinds: tuple[str, ...]
    sources: tuple[tuple[str, ...], ...]  # the cells of each source that is a text
    targets: tuple[str, ...]
    examples: int
    wide: bool = False  # pictures of variable width
    labelled: bool = False  # a file of one token and its label on each line

    @classmethod
    def of(
        cls, pairs: Sequence[Pair], kinds: Sequence[str], examples: int, *, wide: bool = False, labelled: bool = False
    ) -> Evidence:
        """The evidence in some pairs, of `examples` in all; at most 2,000 are looked at, at even distances."""
        shown = pairs[:: -(-len(pairs) // SAMPLE)]
        texts = [number for number, kind in enumerate(kinds) if kind == "text"]
        sources = tuple(tuple(pair.cells[number] for pair in shown) for number in texts)
        return cls(tuple(kinds), sources, tuple(pair.target for pair in shown), examples, wide, labelled)

    @cached_property
    def texts(self) -> list[TextProfile]:
        """The profile of each source that is a text."""
        return [TextProfile.of(list(cells)) for cells in self.sources]

    @cached_property
    def target(self) -> TextProfile:
        """The profile of the targets."""
        return TextProfile.of(list(self.targets))

    @cached_property
    def source_tokens(self) -> TokenChoice:
        """The usual tokens of the first text."""
        return choose_tokens(self.texts[0])

    @cached_property
    def target_tokens(self) -> TokenChoice:
        """The usual tokens of the targets."""
        return choose_tokens(self.target)

    @cached_property
    def classes(self) -> int:
        """The number of different targets if they are classes, else 0."""
        different = len(set(self.targets))
        few = 2 <= different <= min(MAX_CLASSES, len(self.targets) // MIN_EXAMPLES)
        return different if few and self.target.mean_words <= 3 else 0

    @cached_property
    def rows(self) -> list[str]:
        """The texts of each example, joined."""
        return [" ".join(cells) for cells in zip(*self.sources, strict=True)]

    def share(self, holds: Callable[[str, str], bool]) -> float:
        """The share of the examples, (source, target), of which something holds."""
        return sum(map(holds, self.rows, self.targets)) / max(1, len(self.rows))

    @property
    def one_text(self) -> bool:
        """True if a single text is read."""
        return self.kinds == ("text",)


@dataclass(frozen=True)
class LikelyTask:
    """A task by name, the recipe for it, and what it was recognised by."""

    name: str
    recipe: str
    reason: str


# Tables of files.


def _picture_question(seen: Evidence) -> str:
    return "pictures with a text each" if seen.kinds == ("image", "text") and not seen.wide else ""


def _lines_of_text(seen: Evidence) -> str:
    return "wide pictures with texts" if seen.kinds == ("image",) and seen.wide and not seen.classes else ""


def _captions(seen: Evidence) -> str:
    sentences = seen.target.mean_words >= 3 and not seen.classes
    return f"pictures with {_words(seen.target)}" if seen.kinds == ("image",) and not seen.wide and sentences else ""


def _short_speech(seen: Evidence) -> str:
    return f"recordings with {_words(seen.target)}" if seen.kinds == ("audio",) and seen.target.mean_words < 3 else ""


def _long_speech(seen: Evidence) -> str:
    spoken = seen.kinds in (("audio",), ("features",)) and not seen.classes and seen.target.mean_words >= 2
    return f"sequences in files with {_words(seen.target)}" if spoken else ""


def _vector_classes(seen: Evidence) -> str:
    return f"{seen.classes} labels" if seen.kinds == ("features",) and seen.classes else ""


def _videos(seen: Evidence) -> str:
    return f"videos with {_words(seen.target)}" if seen.kinds == ("frames",) else ""


# Several texts.


def _question_answering(seen: Evidence) -> str:
    if len(seen.kinds) < 2 or len(seen.sources) != len(seen.kinds) or seen.target.mean_words > 5:
        return ""
    asking = sum(_share(cells, QUESTION) >= 0.8 for cells in seen.sources)
    found = seen.share(lambda source, target: target.lower() in source.lower())
    return f"a text with a question, {found:.0%} of the answers are in it" if asking == 1 and found >= 0.2 else ""


def _sentence_pairs(seen: Evidence) -> str:
    several = len(seen.kinds) == len(seen.sources) > 1
    return f"{len(seen.kinds)} texts with one of {seen.classes} labels" if several and seen.classes else ""


# One text.


def _tagging(seen: Evidence) -> str:
    """As many labels as words; few labels, which are none of the words, for many more words. CoNLL is always so."""
    if seen.labelled:
        return "one word and its label on each line"
    if not seen.one_text or seen.target.mean_words < 2:
        return ""
    equal = seen.share(lambda source, target: len(split_at_spaces(source)) == len(target.split()))
    labels, words = seen.target.word_types, seen.texts[0].word_types
    closed = labels <= MAX_CLASSES and seen.target.words >= MIN_EXAMPLES * labels and words >= MANY_MORE * labels
    other = seen.share(lambda source, target: not set(source.split()) & set(target.split()))
    if not closed or equal < NEARLY_ALL or other < NEARLY_ALL:
        return ""
    return f"as many labels as words, {labels} different labels for {words:,} different words"


def _classification(seen: Evidence) -> str:
    if not seen.one_text or not seen.classes:
        return ""
    return f"{seen.classes} different answers to {_words(seen.texts[0])}" if seen.texts[0].mean_words >= 1.5 else ""


def _dialogue(seen: Evidence) -> str:
    if not seen.one_text or seen.texts[0].mean_words < 2:
        return ""
    turns = _share(seen.sources[0], TURN)
    if turns >= 0.3:
        return f"turns are marked in {turns:.0%} of the sources"
    counts = Counter(seen.targets)
    repeated = sum(count for count in counts.values() if count > 1) / len(seen.targets)
    questions, back = _share(seen.sources[0], QUESTION), _share(seen.targets, QUESTION)
    alike = repeated >= 0.3 and questions >= 0.2 and back >= 0.05 and seen.target.mean_words >= 3
    return f"{repeated:.0%} of the answers recur, {back:.0%} of them ask, too" if alike else ""


def find_mark(sources: Sequence[str]) -> str | None:
    """The most frequent mark between the turns of a dialogue; `eot` is the end of a turn where both marks are used."""
    marks = Counter(mark for source in sources for mark in BETWEEN.findall(source))
    return max(marks, key=lambda mark: ("eot" in mark.lower(), marks[mark]), default=None)


def _summarisation(seen: Evidence) -> str:
    if not seen.one_text:
        return ""
    source, target = seen.texts[0].mean_words, seen.target.mean_words
    shorter = source >= LONG_WORDS and 2 <= target <= source / 3
    return f"texts of {source:.0f} words on average become {target:.0f}" if shorter else ""


def _pronunciation(seen: Evidence) -> str:
    if not seen.one_text or seen.texts[0].mean_words >= 1.5 or seen.target_tokens.tokens != "words":
        return ""
    ratio = seen.target.mean_words / seen.texts[0].mean_characters
    phones = seen.target.mean_words >= 2 and seen.target.word_length <= 4 and ratio <= 3
    return f"words become {seen.target.word_types} different symbols with spaces between them" if phones else ""


def _symbols(seen: Evidence) -> str:
    closed = seen.one_text and seen.source_tokens.tokens == seen.target_tokens.tokens == "words"
    several = closed and seen.texts[0].mean_words >= 1.5 and seen.target.mean_words >= 1.5
    return f"only {seen.texts[0].word_types} and {seen.target.word_types} different words" if several else ""


def _transliteration(seen: Evidence) -> str:
    if not _strings(seen):
        return ""
    left, right = (script_of("".join(sorted(side.characters))) for side in (seen.texts[0], seen.target))
    two = left and right and left != right
    return "short strings in two scripts that begin alike" if two and _begin_alike(seen) else ""


def _inflection(seen: Evidence) -> str:
    if len(seen.sources) not in (1, 2) or len(seen.kinds) != len(seen.sources):
        return ""
    if seen.target_tokens.tokens not in ("characters", "letters") or seen.target.mean_words > 2:
        return ""
    tagged = seen.share(lambda source, _: TAG.search(source) is not None)
    begins = seen.share(lambda source, target: source[:2].lower() == target[:2].lower())
    alike = tagged >= 0.7 and begins >= 0.5
    return f"{tagged:.0%} of the sources have tags, {begins:.0%} of the targets begin like theirs" if alike else ""


def _translation(seen: Evidence) -> str:
    if not seen.one_text or not seen.source_tokens.tokens == seen.target_tokens.tokens == "bpe":
        return ""
    ratio = seen.target.mean_characters / seen.texts[0].mean_characters
    pairs = zip(seen.rows, seen.targets, strict=True)
    common = sum(len(set(target.split()) & set(source.split())) for source, target in pairs)
    copied = common / max(1, sum(len(set(target.split())) for target in seen.targets))
    if not 0.3 <= ratio <= 3 or copied > 0.4:
        return ""
    return f"sentences become sentences, and {copied:.0%} of the words stay"


RULES: tuple[tuple[str, str, Callable[[Evidence], str]], ...] = (
    ("answers to questions about pictures", "see-answer", _picture_question),
    ("lines of text in pictures", "read", _lines_of_text),
    ("captions of pictures", "caption", _captions),
    ("speech to text", "speak", _short_speech),
    ("classes of sequences of vectors", "watch", _vector_classes),
    ("speech to text, or other long sequences to words", "dictate", _long_speech),
    ("videos to texts", "video", _videos),
    ("answers to questions about a text", "answer", _question_answering),
    ("entailment, or another relation of two texts", "entail", _sentence_pairs),
    ("a label for each word", "tag", _tagging),
    ("classes of texts", "entail", _classification),
    ("dialogue", "dialogue", _dialogue),
    ("summarisation", "summarise", _summarisation),
    ("pronunciation, or words to other symbols", "g2p-small", _pronunciation),
    ("closed vocabularies, such as commands to actions", "scan-lstm", _symbols),
    ("transliteration", "transliterate", _transliteration),
    ("inflection", "transliterate", _inflection),
    ("translation", "translate", _translation),
)


def find_task(seen: Evidence) -> LikelyTask | None:
    """The first task whose rule holds; None: none of them, or too few pairs for the recipe."""
    for name, recipe, rule in RULES:
        if reason := rule(seen):
            if recipe == "translate" and seen.examples < MANY_SENTENCES:
                return None
            larger = recipe == "g2p-small" and seen.examples >= MANY_WORDS
            return LikelyTask(name, "g2p" if larger else recipe, reason)
    return None


def _begin_alike(seen: Evidence) -> bool:
    """True if sources with one first letter mostly have targets with one: 75 % of names, 5 % of translated words."""
    pairs = {(source.strip(), target.strip()) for source, target in zip(seen.rows, seen.targets, strict=True)}
    letters = [(source[0].casefold(), target[0].casefold()) for source, target in pairs]
    both, left = Counter(letters), Counter(source for source, _ in letters)
    same, compared = (sum(count * (count - 1) for count in counts.values()) for counts in (both, left))
    return same > MIN_ALIKE * compared


def _words(side: TextProfile) -> str:
    return f"{side.mean_words:.1f} words on average" if side.mean_words >= 1.5 else "single words"


def _share(cells: Sequence[str], pattern: re.Pattern[str]) -> float:
    return sum(pattern.search(cell) is not None for cell in cells) / max(1, len(cells))


def _strings(seen: Evidence) -> bool:
    """True if short strings become short strings."""
    kinds = ("characters", "letters")
    return seen.one_text and seen.source_tokens.tokens in kinds and seen.target_tokens.tokens in kinds
