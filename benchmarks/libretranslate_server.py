"""LibreTranslate's own server with the weights of an export; runs in an environment that has `libretranslate`.

    PYTHON benchmarks/libretranslate_server.py EXPORT PORT THREADS BEAM

LibreTranslate loads packages of Argos Translate, which this makes of the export: the same files for CTranslate2, with
our sub-words in place of sentencepiece. Its sentence splitter is a model that it would download; in its place a text is
one sentence, which is less work.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

PAIRS = (("en", "de"), ("de", "en"))  # with fewer packages it tries to download more
FIRST = 4  # the id of the first sub-word in CTranslate2


class Subwords:
    """The tokenizer of the export, with the methods of an Argos tokenizer."""

    def __init__(self, marker: Path) -> None:
        """`marker` is the file in the package that names sentencepiece."""
        from tokenizers import Tokenizer, decoders

        settings = json.loads((marker.parent / "model" / "tokenizer.source.json").read_text("utf-8"))
        self._inner = Tokenizer.from_str(json.dumps(settings["model"]))
        self._decoder = decoders.ByteLevel()

    def encode(self, sentence: str) -> list[str]:
        return [str(number + FIRST) for number in self._inner.encode(sentence).ids]

    def decode(self, tokens: list[str]) -> str:
        pieces = [self._inner.id_to_token(int(token) - FIRST) or "" for token in tokens if token.isdigit()]
        return str(self._decoder.decode(pieces)).removeprefix(" ")


def write_packages(export: Path, folder: Path) -> None:
    """A package for each pair."""
    for source, target in PAIRS:
        package = folder / f"{source}_{target}"
        package.mkdir(parents=True)
        facts = {"from_code": source, "from_name": source, "to_code": target, "to_name": target}
        (package / "metadata.json").write_text(json.dumps({**facts, "package_version": "1.0"}), "utf-8")
        (package / "model").symlink_to(export.resolve())
        (package / "sentencepiece.model").touch()


def run(port: str) -> None:
    """Replace the two parts, and start the server as its command does."""
    from argostranslate import package, sbd  # type: ignore[import-not-found, unused-ignore]
    from libretranslate.main import main  # type: ignore[import-not-found, unused-ignore]

    def whole(_: Any, text: str) -> list[str]:  # noqa: ANN401 (of a package without types)
        return [text]

    package.SentencePieceTokenizer = Subwords
    sbd.MiniSBDSentencizer.split_sentences = whole
    sys.argv = ["libretranslate", "--host", "127.0.0.1", "--port", port, "--disable-web-ui"]
    main()


if __name__ == "__main__":
    export, port, threads, beam = sys.argv[1:]
    with tempfile.TemporaryDirectory() as home:
        write_packages(Path(export), Path(home) / "packages")
        os.environ |= {
            "ARGOS_PACKAGES_DIR": f"{home}/packages", "ARGOS_BEAM_SIZE": beam, "ARGOS_INTRA_THREADS": threads,
            "XDG_DATA_HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home,
        }  # fmt: skip
        os.chdir(home)  # it writes a folder `db`
        run(port)
