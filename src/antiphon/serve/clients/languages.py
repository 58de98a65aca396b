"""Choose the model of a pair of languages, for the protocols that name languages instead of models."""

from __future__ import annotations

from antiphon.serve.models import Model
from antiphon.serve.refusals import Refusal
from antiphon.serve.server import Server

__all__ = ["NAMES", "UNKNOWN", "find_model", "known_pairs", "language_name"]

UNKNOWN = "und"  # ISO 639's code of a language that is not known
NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi",
    "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian",
    "lv": "Latvian", "nb": "Norwegian", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian",
    "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian",
    "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


def language_name(code: str) -> str:
    """The English name of a language, or its code."""
    base, _, region = code.lower().partition("-")
    name = NAMES.get(base, code)
    return f"{name} ({region.upper()})" if region and name != code else name


def known_pairs(server: Server) -> list[tuple[str, str]]:
    """The pairs that --languages has named."""
    named = [model.served.languages for model in server.models]
    return [(pair.source, pair.target) for pair in named if pair is not None]


def find_model(server: Server, source: str | None, target: str) -> Model:
    """The model for two codes; en-GB also matches en. Refusal with the pairs that exist.

    Without --languages there is one model, and it takes any codes.
    """
    pairs = known_pairs(server)
    if not pairs:
        if len(server.models) > 1:
            problem = "this server has several models and does not know their languages; start it with --languages"
            raise Refusal(400, "unknown_languages", problem)
        return server.models[0]
    found = [
        model
        for model, (from_code, to_code) in zip(server.models, pairs, strict=True)
        if _alike(target, to_code) and (source is None or _alike(source, from_code))
    ]
    if not found:
        known = ", ".join(f"{from_code}-{to_code}" for from_code, to_code in pairs)
        asked = f"{source or 'any'}-{target}"
        raise Refusal(400, "unknown_languages", f"{asked[:60]} is not translated here; this server has {known}")
    return found[0]


def _alike(asked: str, code: str) -> bool:
    asked, code = asked.lower().replace("_", "-"), code.replace("_", "-")
    return asked == code or asked.split("-")[0] == code or code.split("-")[0] == asked
