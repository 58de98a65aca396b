"""Names that people give to columns, and the role that each suggests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

__all__ = [
    "COMBINED", "SOURCES", "TARGETS", "Role", "family_of", "is_identifier", "language_of", "name_score", "rank",
    "role_of",
]  # fmt: skip

Role = Literal["source", "target", "id", "other", "language", ""]


def names_of(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


# The first known name decides if a table has several. English, German, French, Spanish, Russian, Chinese.
SOURCES = names_of(
    "source src input x word words grapheme graphemes spelling orthography lemma term question prompt instruction "
    "text sentence premise hypothesis passage context article document dialogue conversation utterance message "
    "review tweet comment body title content expression equation formula numeral roman front singular infinitive "
    "present original headword vocabulary story problem post kanji hangul cyrillic infinitiv quelle eingabe wort "
    "wörter frage satz vokabel begriff ausdruck rechnung nachricht mot phrase texte palabra frase pregunta texto "
    "слово вопрос предложение текст исходный лемма выражение 原文 问题 文本 词 词语 句子 内容 汉字 smiles reactants mt"
)
TARGETS = names_of(
    "target tgt trg output y gold answer answers response reply pronunciation phonemes phones phoneme ipa arpabet "
    "transcription transcript form inflection inflected translation reference references ref label labels class "
    "category sentiment intent emotion entailment duplicate result sql query code completion caption summary "
    "headline highlights normalized normalised correction corrected meaning definition plural chosen back value "
    "past participle simplified kana romaji pinyin romanization transliteration expansion solution ziel ausgabe "
    "antwort übersetzung aussprache bedeutung kategorie klasse ergebnis zusammenfassung mehrzahl bewertung réponse "
    "traduction prononciation respuesta traducción pronunciación etiqueta ответ перевод произношение метка класс "
    "категория результат форма значение 译文 答案 标签 类别 拼音 翻译 回答 iupac pe sum total 意思"
)
IDS = names_of("id ids idx uid uuid guid hash md5 sha sha1 sha256 checksum rowid номер 编号 序号")
# Identifiers only if their values look like it: "no" is Norwegian, too.
DOUBTFUL_IDS = ["no", "nr", "num", "number", "nummer", "index", "key", "code", "row", "line", "seq", "#", "№", ""]
OTHERS = names_of(
    "score scores rating stars confidence probability weight count counts frequency freq length date datetime day "
    "year time timestamp created updated start end duration url uri link href source_url author user username "
    "speaker annotator worker lang language split domain license licence attribution comments note notes remark "
    "remarks tags tag pos gender chapter unit lesson deck level price page file filename version status datum zeit "
    "uhrzeit autor sprache wortart genus notiz notizen kommentar bemerkung bemerkungen anmerkung preis lektion "
    "kapitel beispiel example examples beispielsatz hint дата автор язык комментарий примечание цена пример 日期 作者 "
    "备注 词性 评分"
)
# Sources that belong together: all of them are read if there are several.
COMBINED = names_of(
    "premise hypothesis question passage context article document sentence text title instruction input lemma "
    "features msd morphology merkmale признаки source src mt history knowledge persona s q frage kontext satz"
)
FEATURES = names_of("features feats msd morphology morph merkmale признаки")
LANGUAGES = {
    "en": "eng english englisch anglais inglés ingles inglese английский 英语 英文",
    "de": "deu ger german deutsch allemand alemán немецкий 德语",
    "fr": "fra fre french französisch français francais francés французский 法语",
    "es": "spa spanish spanisch espagnol español espanol испанский 西班牙语",
    "it": "ita italian italienisch italien italiano итальянский 意大利语",
    "pt": "por portuguese portugiesisch português portugues португальский",
    "nl": "nld dut dutch niederländisch nederlands нидерландский голландский",
    "ru": "rus russian russisch russe ruso русский 俄语",
    "uk": "ukr ukrainian ukrainisch українська украинский",
    "pl": "pol polish polnisch polski польский",
    "cs": "ces cze czech tschechisch čeština чешский",
    "la": "lat latin latein латинский",
    "el": "ell gre greek griechisch греческий",
    "tr": "tur turkish türkisch türkçe турецкий",
    "ar": "ara arabic arabisch العربية арабский 阿拉伯语",
    "he": "heb hebrew hebräisch עברית",
    "fa": "fas per persian farsi persisch فارسی",
    "hi": "hin hindi हिन्दी хинди",
    "zh": "zho chi chinese chinesisch mandarin китайский 中文 汉语",
    "ja": "jpn japanese japanisch japonais 日本語 日语 японский",
    "ko": "kor korean koreanisch 한국어 韩语 корейский",
    "sv": "swe swedish schwedisch svenska шведский",
    "no": "nor norwegian norwegisch norsk",
    "da": "dan danish dänisch dansk",
    "fi": "fin finnish finnisch suomi финский",
    "hu": "hun hungarian ungarisch magyar венгерский",
    "ro": "ron rum romanian rumänisch română",
    "vi": "vie vietnamese vietnamesisch",
    "eo": "epo esperanto",
}
MOST_WORDS = 3  # of a name
LANGUAGE_OF = {name: code for code, names in LANGUAGES.items() for name in (code, *names.split())}


def role_of(title: str) -> Role:
    """The role that a name suggests; of source_text, answer-3 and pairID the word that is known decides."""
    name = title.strip().lower()
    for whole in (name, family_of(name)):
        if role := _role_of_word(whole):
            return role
    words = _words(title)[: MOST_WORDS + 1]
    if len(words) > MOST_WORDS:
        return ""
    roles = [_role_of_word(word) for word in words]
    if roles and roles[-1] in ("id", "other"):
        return roles[-1]
    return next((role for role in ("target", "source", "language") if role in roles), "")


def _role_of_word(word: str) -> Role:
    tables: tuple[tuple[Role, Iterable[str]], ...] = (
        ("source", SOURCES), ("source", FEATURES), ("target", TARGETS), ("id", IDS), ("language", LANGUAGE_OF),
        ("other", OTHERS), ("other", DOUBTFUL_IDS[:-1]),
    )  # fmt: skip
    return next((role for role, names in tables if word in names), "")


def _words(title: str) -> list[str]:
    """gold_label, pairID, translation.en, Unnamed: 0: the words of a name, in lower case, without numbers."""
    parts = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", title))
    return [part.lower() for part in parts]


def family_of(title: str) -> str:
    """The name without the number or letter behind it: caption1, reference_0, text_a."""
    return re.sub(r"([ _-]?\d+|[_-][ab])$", "", title.strip().lower())


def language_of(title: str) -> str:
    """The language that a name stands for, as its code; empty for other names. `It is` is no name of Italian."""
    whole = title.strip().lower()
    words = [word for word in _words(title) if len(word) > 2 or " " not in whole]
    found = [LANGUAGE_OF[word] for word in (whole, *words) if word in LANGUAGE_OF]
    return found[0] if found and len(words) <= MOST_WORDS else ""


def rank(title: str, names: Iterable[str]) -> tuple[int, bool]:
    """The place of the first of the names that a title contains; label comes before activity_label."""
    known, whole = list(names), {title.strip().lower(), family_of(title)}
    words = whole | set(_words(title))
    first = min((known.index(word) for word in words if word in known), default=len(known))
    return first, whole.isdisjoint(known[first : first + 1])


def is_identifier(title: str, *, looks_unique: bool) -> bool:
    """True if a name says that a column has identifiers; of `no` or `key` the values have to say so, too."""
    name = title.strip().lower()
    if name.startswith("unnamed:") or role_of(title) == "id":
        return True
    return looks_unique and (name in DOUBTFUL_IDS or family_of(name) in DOUBTFUL_IDS)


def name_score(titles: list[str]) -> int:
    """The evidence that the cells of a first line are names of columns.

    Translations of one word have the same role (answer, Antwort; German, Deutsch), so equal roles are weaker evidence.
    """
    languages = [language_of(title) for title in titles]
    if len([code for code in languages if code]) > 1:
        return 4 if len(set(languages) - {""}) > 1 else 0
    roles = [role for role in map(role_of, titles) if role]
    if not roles:
        return 0
    return len(roles) + 1 if len(set(roles)) > 1 else min(2, len(roles))
