# ruff: noqa: E501, S608, SIM905
"""Writes the files of the zoo: small data as strangers have them. All content is invented.

Run it in this folder after a change: `python make.py`. The files are committed; two need openpyxl and pyarrow.
"""

from __future__ import annotations

import csv
import io
import json
import uuid
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Row = tuple[str, ...]

ENGLISH = [
    "The cat sleeps on the warm roof.", "Where is the old station?", "We bought bread and two apples.",
    "My sister plays the violin.", "It rained all night.", "Please close the window.", "He never drinks coffee.",
    "The train leaves at nine.", "Do you know this street?", "They sang an old song together.",
    "She wrote a long letter to her aunt.", "The lake is frozen.",
]  # fmt: skip
GERMAN = [
    "Die Katze schläft auf dem warmen Dach.", "Wo ist der alte Bahnhof?", "Wir kauften Brot und zwei Äpfel.",
    "Meine Schwester spielt Geige.", "Es regnete die ganze Nacht.", "Bitte schließ das Fenster.",
    "Er trinkt nie Kaffee.", "Der Zug fährt um neun.", "Kennst du diese Straße?",
    "Sie sangen zusammen ein altes Lied.", "Sie schrieb ihrer Tante einen langen Brief.", "Der See ist zugefroren.",
]  # fmt: skip
RUSSIAN = [
    "Кошка спит на тёплой крыше.", "Где старый вокзал?", "Мы купили хлеб и два яблока.", "Моя сестра играет на скрипке.",
    "Всю ночь шёл дождь.", "Пожалуйста, закрой окно.", "Он никогда не пьёт кофе.", "Поезд отходит в девять.",
    "Ты знаешь эту улицу?", "Они вместе спели старую песню.", "Она написала тёте длинное письмо.", "Озеро замёрзло.",
]  # fmt: skip
FRENCH = [
    "Le chat dort sur le toit chaud.", "Où est la vieille gare ?", "Nous avons acheté du pain et deux pommes.",
    "Ma sœur joue du violon.", "Il a plu toute la nuit.", "Ferme la fenêtre, s'il te plaît.",
    "Il ne boit jamais de café.", "Le train part à neuf heures.", "Connais-tu cette rue ?",
    "Ils ont chanté une vieille chanson.", "Elle a écrit une longue lettre à sa tante.", "Le lac est gelé.",
]  # fmt: skip
CHINESE = [
    "猫睡在温暖的屋顶上。", "老车站在哪里？", "我们买了面包和两个苹果。", "我妹妹拉小提琴。", "下了一整夜的雨。",
    "请关上窗户。", "他从不喝咖啡。", "火车九点开。", "你认识这条街吗？", "他们一起唱了一首老歌。",
    "她给阿姨写了一封长信。", "湖结冰了。",
]  # fmt: skip
JAPANESE = [
    "猫は暖かい屋根で寝ています。", "古い駅はどこですか。", "パンとりんごを二つ買いました。", "妹はバイオリンを弾きます。",
    "一晩中雨が降りました。", "窓を閉めてください。", "彼はコーヒーを飲みません。", "電車は九時に出ます。",
]  # fmt: skip
ARABIC = [
    "القطة تنام على السطح الدافئ.", "أين المحطة القديمة؟", "اشترينا الخبز وتفاحتين.", "أختي تعزف على الكمان.",
    "هطل المطر طوال الليل.", "أغلق النافذة من فضلك.", "هو لا يشرب القهوة أبدا.", "القطار يغادر في التاسعة.",
]  # fmt: skip
ENGLISH_WORDS = "answer house tree river bread window letter stone cloud winter garden bridge".split()
GERMAN_WORDS = "Antwort Haus Baum Fluss Brot Fenster Brief Stein Wolke Winter Garten Brücke".split()
RUSSIAN_WORDS = "ответ дом дерево река хлеб окно письмо камень облако зима сад мост".split()
VERBS = [
    ("walk", "walked"), ("sing", "sang"), ("bake", "baked"), ("run", "ran"), ("carry", "carried"), ("stop", "stopped"),
    ("hear", "heard"), ("paint", "painted"), ("swim", "swam"), ("open", "opened"), ("hurry", "hurried"), ("build", "built"),
]  # fmt: skip
PHONES = [
    ("amber", "AE1 M B ER0"), ("answer", "AE1 N S ER0"), ("basket", "B AE1 S K AH0 T"), ("candle", "K AE1 N D AH0 L"),
    ("delay", "D IH0 L EY1"), ("echo", "EH1 K OW0"), ("fable", "F EY1 B AH0 L"), ("giant", "JH AY1 AH0 N T"),
    ("harbor", "HH AA1 R B ER0"), ("island", "AY1 L AH0 N D"), ("jelly", "JH EH1 L IY0"), ("kettle", "K EH1 T AH0 L"),
]  # fmt: skip
IPA = [
    ("вода", "vɐˈda"), ("молоко", "məlɐˈko"), ("окно", "ɐkˈno"), ("город", "ˈgorət"), ("зима", "zʲɪˈma"),
    ("дорога", "dɐˈrogə"), ("письмо", "pʲɪsʲˈmo"), ("река", "rʲɪˈka"), ("трава", "trɐˈva"), ("облако", "ˈobləkə"),
]  # fmt: skip
QUESTIONS = [
    ("What is a baby cow called?", "a calf"), ("Which planet is the largest?", "Jupiter"),
    ("How many legs has a spider?", "eight"), ("What do bees make?", "honey"), ("Who cuts hair?", "a barber"),
    ("Where do penguins live?", "in the south"), ("When do owls hunt?", "at night"), ("What is ice?", "frozen water"),
    ("Which metal is liquid?", "mercury"), ("What melts in the sun?", "snow"),
]  # fmt: skip
PASSAGES = [
    ("Anna keeps three hens behind her house. They lay two eggs a day, which she sells to Paul.", "Who buys eggs?", "Paul"),
    ("The mill at Olm burned down in the spring. It was built again of stone two years later.", "What burned?", "the mill"),
    ("Nobody used the north gate after the flood, for its bridge was gone and the ferry was slow.", "What was slow?", "the ferry"),
    ("Karl mends clocks. On Mondays he drives to Rosen and collects the broken ones at the inn.", "When does he drive?", "on Mondays"),
    ("The valley has one school. Forty children walk there every morning, some for an hour.", "How many children?", "forty"),
    ("Salt came by boat until the road was finished. Since then lorries bring it every week.", "What is brought?", "salt"),
    ("Mira planted a pear tree when her son was born. He is taller than the tree by now.", "Which tree is it?", "a pear tree"),
    ("The orchestra of the town has no drummer. Sometimes the baker plays, if the bread is done.", "Who drums?", "the baker"),
]  # fmt: skip
NLI = [
    ("A man plays a guitar on a stage.", "A man makes music.", "entailment"),
    ("Two dogs run in the snow.", "The dogs are asleep.", "contradiction"),
    ("A woman reads in a park.", "A woman waits for a friend.", "neutral"),
    ("Children jump into a lake.", "Children are wet.", "entailment"),
    ("A chef cuts an onion.", "The chef is in a car.", "contradiction"),
    ("A boy holds a red kite.", "A boy is on holiday.", "neutral"),
    ("People wait for a bus.", "People stand in the street.", "entailment"),
    ("A girl paints a wall.", "A girl paints nothing.", "contradiction"),
    ("An old man feeds the birds.", "An old man is lonely.", "neutral"),
    ("A train crosses a bridge.", "A train moves.", "entailment"),
    ("The players leave the field.", "The players are in bed.", "contradiction"),
    ("A woman rides a horse.", "A woman wins a race.", "neutral"),
]  # fmt: skip
REVIEWS = [
    ("The soup was cold and nobody cared.", "negative"), ("A lovely film with a clever end.", "positive"),
    ("I returned it after a day.", "negative"), ("Fits well and looks nice.", "positive"),
    ("The room was loud, dark and dirty.", "negative"), ("We laughed the whole evening.", "positive"),
    ("Best bread in this town.", "positive"), ("It broke at once.", "negative"),
    ("The staff were kind and quick.", "positive"), ("Never again.", "negative"),
    ("A waste of money, sadly.", "negative"), ("My children love it.", "positive"),
]  # fmt: skip
TURNS = [
    ("Hello, how can I help?", "I need a table for two."), ("For which day?", "For Friday evening."),
    ("Inside or outside?", "Outside, if it does not rain."), ("At what time?", "Around eight."),
    ("Is that all?", "Yes, thank you."), ("Your name, please?", "Marten."), ("Any allergies?", "No nuts for me."),
    ("See you on Friday.", "Goodbye."),
]  # fmt: skip
TAGGED = [
    ("gehen", "ging", "V;PST;3;SG"), ("gehen", "gehst", "V;PRS;2;SG"), ("Haus", "Häuser", "N;NOM;PL"),
    ("Haus", "Hauses", "N;GEN;SG"), ("sehen", "sah", "V;PST;3;SG"), ("sehen", "siehst", "V;PRS;2;SG"),
    ("Baum", "Bäume", "N;NOM;PL"), ("Baum", "Baumes", "N;GEN;SG"), ("Kind", "Kinder", "N;NOM;PL"),
    ("laufen", "lief", "V;PST;3;SG"),
]  # fmt: skip
FORMS = [
    ("gehen", "3sg", "geht"), ("sagen", "3sg", "sagt"), ("kaufen", "2sg", "kaufst"), ("malen", "2sg", "malst"),
    ("holen", "3sg", "holt"), ("bauen", "2sg", "baust"), ("lernen", "3sg", "lernt"), ("lachen", "2sg", "lachst"),
    ("leben", "3sg", "lebt"), ("loben", "2sg", "lobst"),
]  # fmt: skip
SUMS = [
    ("12+7", "19"), ("3+44", "47"), ("90-8", "82"), ("6*7", "42"), ("15+15", "30"), ("81-9", "72"), ("5*5", "25"),
    ("100-1", "99"), ("23+8", "31"), ("7*8", "56"), ("64-32", "32"), ("9+9", "18"),
]  # fmt: skip
DATES = [
    ("3 May 2021", "2021-05-03"), ("12 July 1999", "1999-07-12"), ("30 June 2004", "2004-06-30"),
    ("1 January 2010", "2010-01-01"), ("17 March 1987", "1987-03-17"), ("8 October 2015", "2015-10-08"),
    ("25 December 2000", "2000-12-25"), ("9 August 1974", "1974-08-09"), ("4 April 2018", "2018-04-04"),
    ("22 February 1993", "1993-02-22"),
]  # fmt: skip
ROMAN = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"]
FORMULAS = [
    ("water", "H2O"), ("ammonia", "NH3"), ("methane", "CH4"), ("table salt", "NaCl"), ("glucose", "C6H12O6"),
    ("carbon dioxide", "CO2"), ("sulfuric acid", "H2SO4"), ("ethanol", "C2H6O"), ("ozone", "O3"), ("rust", "Fe2O3"),
]  # fmt: skip
EMOJI = [
    ("I love you", "😍"), ("it is raining", "🌧"), ("happy birthday", "🎂"), ("let us eat pizza", "🍕"),
    ("good night", "😴"), ("the bus is late", "🚌"), ("so funny", "😂"), ("well done", "👏"), ("a sad story", "😢"),
    ("my new bike", "🚲"),
]  # fmt: skip
CODE = [
    "def area(width, height):", "    return width * height", "", "class Box:", "    def __init__(self, side):",
    "        self.side = side", "", "    def volume(self):", "        return self.side ** 3", "",
    'print(area(2, 3), Box(4).volume())', "for n in range(3):", "    print(n)",
]  # fmt: skip
POEM = """\
The hill is brown, the hill is bare,
a crow, a stone, and evening air.
Who left the gate, who left the plough,
and who is coming homeward now?

The lamp is lit, the bread is cut,
the door that never closed is shut.
A hand, a cup, a chair, a name,
and nothing, nothing is the same.
"""
PROSE = """\
In the spring, the river rose. It took the lower bridge, the boats, and two of the mills.
Nobody was hurt, for the bells had rung all night, and the cattle were on the hill.
When the water fell, we found fish in the orchard, a chair in the pear tree, and mud.
The mayor, who had lost his hat, promised a wall, as his father had done before him.
"""
NAMES = (
    "Adela Bruno Celina Darius Elvira Fabian Greta Henrik Ilona Jasper Katinka Leander Mirabel Nestor Odette".split()
)
CITIES = [
    "Aldern",
    "Brück am See",
    "Corvay",
    "Dunmere",
    "Eschbach",
    "Fallowfield",
    "Grünau",
    "Hartlow",
    "Ilmtal",
    "Jarrow",
]
SOURCE = "CC-BY 2.0 (France) Attribution: example.org #{} (anna) & #{} (bruno)"


def tsv(rows: list[Row], end: str = "\n") -> str:
    return "".join("\t".join(row) + end for row in rows)


def csv_text(rows: list[Row], delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()


def jsonl(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def numbered(rows: list[Row], start: int = 1) -> list[Row]:
    return [(str(number), *row) for number, row in enumerate(rows, start)]


def uuids(count: int) -> list[str]:
    return [str(uuid.uuid5(uuid.NAMESPACE_URL, f"example-{number}")) for number in range(count)]


def pairs(*columns: list[str]) -> list[Row]:
    return list(zip(*columns, strict=False))


def with_headers() -> dict[str, str]:
    """Files whose first line names the columns."""
    dated = [(f"2024-03-{day:02} 1{day % 9}:30", *row) for day, row in enumerate(REVIEWS, 1)]
    prices = [(f"{3 * n}.99", *row) for n, row in enumerate(pairs(ENGLISH_WORDS, GERMAN_WORDS), 1)]
    caption = [(a, b, c) for a, b, c in zip(ENGLISH[:6], ENGLISH[6:], ENGLISH[3:], strict=False)]
    return {
        "languages.csv": csv_text([("English", "Russian"), *pairs(ENGLISH, RUSSIAN)]),
        "running-id.tsv": tsv([("id", "English", "Russian"), *numbered(pairs(ENGLISH, RUSSIAN))]),
        "german-header.csv": csv_text([("Deutsch", "Französisch"), *pairs(GERMAN_WORDS, FRENCH)]),
        "deutsch-englisch.tsv": tsv([("Deutsch", "Englisch"), *pairs(GERMAN_WORDS, ENGLISH_WORDS)]),
        "frage-antwort.tsv": tsv([("Frage", "Antwort"), *QUESTIONS]),
        "russian-header.tsv": tsv([("слово", "перевод"), *pairs(RUSSIAN_WORDS, ENGLISH_WORDS)]),
        "chinese-header.csv": csv_text([("编号", "原文", "译文"), *numbered(pairs(CHINESE, ENGLISH))]),
        "nli.tsv": tsv([("premise", "hypothesis", "label"), *NLI]),
        "nli-ids.tsv": tsv(
            [("pairID", "gold_label", "sentence1", "sentence2"),
             *((f"{7000 + 13 * n}.jpg#{n % 5}r1n", c, a, b) for n, (a, b, c) in enumerate(NLI))]
        ),
        "glue-order.tsv": tsv([("label", "sentence1", "sentence2"), *((c, a, b) for a, b, c in NLI)]),
        "similarity.tsv": tsv(
            [("sentence1", "sentence2", "score"), *((a, b, f"{n * 0.37 % 5:.2f}") for n, (a, b, _) in enumerate(NLI))]
        ),
        "reading.tsv": tsv([("passage", "question", "answer"), *PASSAGES]),
        "squad-like.csv": csv_text(
            [("id", "title", "context", "question", "answer_text"),
             *((u[:8] + u[-12:], "Village", *row) for u, row in zip(uuids(8), PASSAGES, strict=True))]
        ),
        "faq.csv": csv_text([("Question", "Answer"), *QUESTIONS]),
        "kaggle.csv": csv_text([("id", "text", "label"), *((str(40 + 7 * n), *row) for n, row in enumerate(REVIEWS))]),
        "kaggle-numbers.csv": csv_text(
            [("id", "text", "target"), *((str(n), a, str(int(b == "positive"))) for n, (a, b) in enumerate(REVIEWS))]
        ),
        "pandas-index.csv": csv_text([("", "review", "sentiment"), *numbered(REVIEWS, 0)]),
        "label-first.tsv": tsv([("label", "text"), *((b, a) for a, b in REVIEWS)]),
        "dated.csv": csv_text([("timestamp", "review", "sentiment"), *dated]),
        "stars.csv": csv_text([("stars", "review"), *((str(1 + n % 5), a) for n, (a, _) in enumerate(REVIEWS))]),
        "uuid.csv": csv_text([("uuid", "source", "target"), *pairs(uuids(12), ENGLISH, FRENCH)]),
        "urls.tsv": tsv(
            [("url", "article", "headline"),
             *((f"https://example.org/{n}", a, q[:-1]) for n, (a, q, _) in enumerate(PASSAGES))]
        ),
        "word-pos.tsv": tsv(
            [("word", "pos"), ("run", "VERB"), ("tree", "NOUN"), ("green", "ADJ"), ("sing", "VERB"), ("stone", "NOUN"),
             ("cold", "ADJ"), ("lake", "NOUN"), ("write", "VERB")]
        ),
        "small-header.tsv": tsv([("premise", "hypothesis", "label"), *NLI[:3]]),
        "scored.tsv": tsv(
            [("English", "German", "score"),
             *((a, b, f"0.{91 - n}") for n, (a, b) in enumerate(pairs(ENGLISH, GERMAN)))]
        ),
        "comments.csv": csv_text(
            [("source", "target", "notes"), *((a, b, "check!" if n == 2 else "") for n, (a, b) in
                                              enumerate(pairs(ENGLISH, GERMAN)))]
        ),
        "vocabulary.csv": csv_text(
            [("word", "part of speech", "translation", "example"),
             *((a, "noun", b, f"Look, {a} and {c}.") for a, b, c in pairs(ENGLISH_WORDS, GERMAN_WORDS, NAMES))]
        ),
        "prices.csv": csv_text([("price", "product", "Produkt"), *prices]),
        "references.tsv": tsv([("prompt", "reference_0", "reference_1"), *caption]),
        "features-header.csv": csv_text([("lemma", "features", "form"), *((a, c, b) for a, b, c in TAGGED)]),
        "duplicate-names.tsv": tsv([("sentence", "sentence", "label"), *NLI]),
        "header-spaces.csv": csv_text([(" word ", " phones "), *PHONES]).replace('"', ""),
        "singular-plural.tsv": tsv([("Singular", "Mehrzahlform"), *((w, f"{w}s") for w in ENGLISH_WORDS)]),
        "unknown-names.tsv": tsv([("Ausgangstext", "Zieltext"), *((f"{a} {b}", f"{b} {a}") for a, b in
                                                                   pairs(GERMAN, GERMAN[1:]))]),
        "windows.tsv": tsv([("word", "plural"), *((w, f"{w}s") for w in ENGLISH_WORDS)], "\r\n"),
        "trailing-tabs.tsv": tsv([("source", "target", ""), *((a, b, "") for a, b in pairs(ENGLISH, GERMAN))]),
        "sql.csv": csv_text(
            [("question", "sql"),
             *((f"names of people older than {n}", f"SELECT name, age FROM people WHERE age > {n}") for n in range(20, 32))]
        ),
        "alpaca.jsonl": jsonl(
            [{"instruction": q, "input": a if n % 2 else "", "output": b} for n, (a, q, b) in enumerate(PASSAGES)]
        ),
        "captions.jsonl": jsonl(
            [{"image_id": n, "text": a, "references": [b, c]} for n, (a, b, c) in enumerate(caption)]
        ),
        "unknown-keys.jsonl": jsonl(
            [{"uid": u, "utt": a, "emotion_name": b} for u, (a, b) in zip(uuids(12), REVIEWS, strict=True)]
        ),
    }  # fmt: skip


def without_headers() -> dict[str, str]:
    """Files whose first line is an example."""
    attributed = [
        (a, b, SOURCE.format(28000 + 31 * n, 91000 - 17 * n)) for n, (a, b) in enumerate(pairs(ENGLISH, GERMAN))
    ]
    moses = [(f"train-{n:04}", a, b) for n, (a, b) in enumerate(pairs(ENGLISH, FRENCH))]
    anki = "#separator:tab\n#html:true\n#tags column:3\n"
    return {
        "wordlist.tsv": tsv(pairs(ENGLISH_WORDS, GERMAN_WORDS)),
        "wordlist-five.tsv": tsv(pairs(ENGLISH_WORDS, GERMAN_WORDS)[:5]),
        "wordlist-russian.csv": csv_text(pairs(RUSSIAN_WORDS, ENGLISH_WORDS)),
        "two-rows.tsv": tsv([("good morning", "guten Morgen"), ("good night", "gute Nacht")]),
        "memory.tsv": tsv(pairs(ENGLISH, RUSSIAN)),
        "attribution.tsv": tsv(attributed),
        "three-languages.tsv": tsv(pairs(ENGLISH, GERMAN, FRENCH)),
        "codes.tsv": tsv(moses),
        "anki.txt": anki + tsv([(a, b, "lesson1" if n < 6 else "lesson2") for n, (a, b) in
                                enumerate(pairs(ENGLISH_WORDS, GERMAN_WORDS))]),
        "late-header.tsv": "exported on Monday\n" + tsv([("source", "target"), *pairs(ENGLISH, GERMAN)]),
        "g2p.tsv": tsv(PHONES),
        "g2p-ipa.tsv": tsv(IPA),
        "sigmorphon.tsv": tsv(TAGGED),
        "inflection.tsv": tsv([(a, c, b) for a, b, c in TAGGED]),
        "own-tags.tsv": tsv(FORMS),
        "past.tsv": tsv(VERBS),
        "arithmetic.tsv": tsv(SUMS),
        "arithmetic-numbered.tsv": tsv(numbered(SUMS)),
        "dates.tsv": tsv(DATES),
        "iso-dates.tsv": tsv([(b, a) for a, b in DATES]),
        "roman.tsv": tsv(pairs(ROMAN, [str(n) for n in range(1, 13)])),
        "to-roman.tsv": tsv(numbered([(roman,) for roman in ROMAN])),
        "formulas.csv": csv_text(FORMULAS),
        "emoji.tsv": tsv(EMOJI),
        "japanese.tsv": tsv(pairs(JAPANESE, ENGLISH)),
        "arabic.tsv": tsv(pairs(ENGLISH, ARABIC)),
        "dialogue.tsv": tsv(TURNS),
        "nli-bare.tsv": tsv(NLI),
        "reading-bare.tsv": tsv(PASSAGES),
        "classes.tsv": tsv(REVIEWS),
        "quoted-commas.csv": csv_text([(f"{a[:-1]}, {b}", c) for a, b, c in zip(ENGLISH, NAMES, GERMAN, strict=False)]),
        "sorted.tsv": tsv([("Go.", "Geh."), ("Hi.", "Hallo!"), *sorted(pairs(ENGLISH, GERMAN), key=lambda row: len(row[0]))]),
        "first-is-capital.tsv": tsv([("Africa", "Afrique"), *((a, f"le {a}eau") for a in ENGLISH_WORDS)]),
        "phrasebook.tsv": tsv([(a, b, ("home", "town")[n % 2]) for n, (a, b) in enumerate(pairs(ENGLISH, FRENCH))]),
        "ragged.tsv": tsv(pairs(ENGLISH, GERMAN)[:9]) + "only one cell\n" + "a\tb\tc\n" + "last\tzuletzt\n",
        "blank-lines.csv": ",\n" + csv_text(pairs(ENGLISH_WORDS, GERMAN_WORDS)) + ",\n",
        "vocabulary-bare.tsv": tsv([(b, a, "noun" if n % 4 else "verb") for n, (a, b) in
                                    enumerate(pairs(ENGLISH_WORDS, GERMAN_WORDS))]),
        "capitals.jsonl": jsonl([{"n": n, "name": c, "letters": " ".join(c)} for n, c in enumerate(CITIES)]),
    }  # fmt: skip


def plain_and_refused() -> dict[str, str]:
    """Plain text for a language model, and files that are no task."""
    return {
        "prose.txt": PROSE,
        "poem.txt": POEM,
        "program.txt": "\n".join(CODE) + "\n",
        "names.txt": "\n".join(NAMES) + "\n",
        "cities.txt": "\n".join(CITIES) + "\n",
        "one-column.tsv": "\n".join(GERMAN_WORDS) + "\n",
        "empty.tsv": "",
        "blank.csv": "\n\n\n",
        "header-only.csv": "question,answer\n",
        "id-and-text.csv": csv_text([("id", "text"), *numbered([(line,) for line in ENGLISH])]),
        "leipzig.tsv": tsv(numbered([(line,) for line in ENGLISH])),
        "log.tsv": tsv([(f"2024-01-{n:02}T08:{n:02}:11", line) for n, line in enumerate(ENGLISH, 1)]),
        "links.csv": csv_text([("link", "text"), *((f"https://example.org/{n}", a) for n, a in enumerate(ENGLISH))]),
        "messages.tsv": tsv([(str(830011 + 37 * n), line) for n, line in enumerate(ENGLISH)]),
        "one-key.jsonl": jsonl([{"text": line} for line in ENGLISH]),
        "source.en": "\n".join(ENGLISH) + "\n",
        "source.de": "\n".join(GERMAN) + "\n",
    }


def other_formats() -> dict[str, str]:
    """Files that need more than TSV, CSV and JSONL in UTF-8."""
    nested = [{"translation": {"en": a, "de": b}} for a, b in pairs(ENGLISH, GERMAN)]
    return {
        "excel.csv": csv_text([("Frage", "Antwort"), *QUESTIONS], ";"),
        "semicolons.csv": csv_text(pairs(ENGLISH, GERMAN), ";"),
        "pairs.json": json.dumps([{"question": q, "answer": a} for q, a in QUESTIONS], ensure_ascii=False, indent=1),
        "nested.jsonl": jsonl(nested),
        "labels.jsonl": jsonl(
            [{"idx": n, "text": a, "label": int(b == "positive")} for n, (a, b) in enumerate(REVIEWS)]
        ),
        "quoted.tsv": "".join(f'"{a}"\t"{b}"\n' for a, b in [("source", "target"), *pairs(ENGLISH, GERMAN)]),
    }


def tables_in_binary() -> None:
    """A sheet of a spreadsheet program, and a Parquet file."""
    import openpyxl
    import pyarrow
    import pyarrow.parquet

    book = openpyxl.Workbook()
    for row in [("No", "Deutsch", "Englisch"), *numbered(pairs(GERMAN_WORDS, ENGLISH_WORDS))]:
        book.active.append([int(row[0]) if row[0].isdecimal() else row[0], *row[1:]])
    book.save(HERE / "vocabulary.xlsx")
    columns = dict(zip(("idx", "sentence", "label"), zip(*numbered(REVIEWS), strict=True), strict=True))
    pyarrow.parquet.write_table(pyarrow.table(columns), HERE / "reviews.parquet")


def main() -> None:
    files = {**with_headers(), **without_headers(), **plain_and_refused(), **other_formats()}
    for name, text in files.items():
        (HERE / name).write_bytes(text.encode())
    bom = "\ufeff" + csv_text([("word", "meaning"), *pairs(GERMAN_WORDS, ENGLISH_WORDS)])
    (HERE / "bom.csv").write_bytes(bom.encode())
    (HERE / "utf16.tsv").write_bytes(
        tsv([("Wort", "Übersetzung"), *pairs(GERMAN_WORDS, ENGLISH_WORDS)]).encode("utf-16")
    )
    tables_in_binary()


if __name__ == "__main__":
    main()
