"""The settings of a server, and the checks that make it safe by default."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from antiphon.errors import UserError

__all__ = ["Languages", "ServeSettings", "ServedModel", "is_loopback", "parse_languages", "served_models"]

LANGUAGES = re.compile(r"([A-Za-z]{2,8}(?:[_-][A-Za-z0-9]{2,8})?)[-:>]([A-Za-z]{2,8}(?:[_-][A-Za-z0-9]{2,8})?)")


@dataclass(frozen=True)
class Languages:
    """The pair of languages of a model, as codes in lower case."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


@dataclass(frozen=True)
class ServedModel:
    """A model to be served: one run, or several that answer together as an ensemble."""

    name: str
    runs: tuple[Path, ...]
    languages: Languages | None = None


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """The settings of `antiphon serve`."""

    models: tuple[ServedModel, ...]
    folders: tuple[Path, ...] = ()  # whose runs are listed, and loaded when they are asked
    loaded: int = 4  # of these runs at a time
    host: str = "127.0.0.1"
    port: int = 8080
    api_keys: tuple[str, ...] = ()
    insecure: bool = False  # another address than loopback without a key
    allowed_hosts: tuple[str, ...] = ()  # names in the Host header beside those of loopback
    cors: tuple[str, ...] = ()  # origins of other pages that may call the server
    threads: int = 1  # of each model
    queue: int = 256  # inputs of a model that are waiting or being computed
    wait: float = 5.0  # seconds that a request waits for room in the queue, or for a model that is loading
    timeout: float = 60.0  # seconds for a whole request
    drain: float = 30.0  # seconds that accepted requests have after SIGTERM
    max_bytes: int = 16 * 2**20  # of the body of a request
    max_inputs: int = 128  # of a request
    max_characters: int = 20_000  # of a text
    max_positions: int = 1_000_000  # hypotheses x answers x tokens of a search

    def __post_init__(self) -> None:
        if problems := self._problems():
            raise UserError(problems)

    @property
    def loopback(self) -> bool:
        """Only this machine can reach the server."""
        return is_loopback(self.host)

    def _problems(self) -> list[str]:
        problems = []
        if not self.loopback and not self.api_keys and not self.insecure:
            problems.append(
                f"--host {self.host}: other machines could use this server; "
                "add --api-key KEY, or --insecure if everyone may"
            )
        counts = ("queue", "loaded", "max_inputs", "max_characters", "threads", "max_positions")
        for name, least in {**dict.fromkeys(counts, 1), "max_bytes": 1024}.items():
            if (value := getattr(self, name)) < least:
                problems.append(f"--{name.replace('_', '-')}: must be at least {least}, not {value}")
        for name, above in (("timeout", True), ("drain", False), ("wait", False)):
            if not 0 <= (value := getattr(self, name)) <= 86_400 or (above and value == 0):
                span = "above 0 and at most" if above else "from 0 to"
                problems.append(f"--{name}: must be {span} 86,400 seconds, not {value:g}")
        if any(len(key) < 8 for key in self.api_keys):
            problems.append("--api-key: a key of fewer than 8 characters is soon guessed; give a longer one")
        if len(self.models) > 1 and 0 < sum(model.languages is not None for model in self.models) < len(self.models):
            problems.append("--languages: given for some of the models; give one for each RUN, in order")
        pairs = Counter(str(model.languages) for model in self.models if model.languages)
        problems += [f"--languages {pair}: two models have it; give each another" for pair, n in pairs.items() if n > 1]
        return problems


def is_loopback(host: str) -> bool:
    """The address, or the name localhost, can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def parse_languages(text: str) -> Languages:
    """`en-de`, or `en:pt-br` where a code has a hyphen of its own."""
    simple = re.fullmatch(r"([A-Za-z]{2,8})[-:>]([A-Za-z]{2,8})", text)
    found = simple or re.fullmatch(r"([^:>]+)[:>]([^:>]+)", text)
    if found is None or not LANGUAGES.fullmatch(text):
        raise UserError(f"--languages {text}: expected two codes, such as en-de or en:pt-br")
    return Languages(found[1].lower(), found[2].lower())


def served_models(runs: list[Path], *, ensemble: bool, languages: list[str]) -> tuple[ServedModel, ...]:
    """The models of the runs; their names are those of the folders."""
    groups = [tuple(runs)] if ensemble else [(run,) for run in runs]
    if languages and len(languages) != len(groups):
        raise UserError(f"--languages: {len(languages)} for {len(groups)} models; give one for each, in order")
    pairs: list[Languages | None] = [parse_languages(text) for text in languages]
    pairs = pairs or [None] * len(groups)
    names: Counter[str] = Counter()
    models = []
    for folders, pair in zip(groups, pairs, strict=True):
        name = "+".join(folder.resolve().name for folder in folders)
        names[name] += 1
        unique = name if names[name] == 1 else f"{name}-{names[name]}"
        models.append(ServedModel(unique, folders, pair))
    return tuple(models)
