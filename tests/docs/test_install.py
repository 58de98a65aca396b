"""What `make` installs of torch: which build, how large, and when it stops before a download. pip is an actor here."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CPU = "Would install sympy-1.14.0 torch-2.13.0+cpu"
CUDA = "Would install nvidia-cublas-13.1.1.3 sympy-1.14.0 torch-2.13.0 triton-3.7.1"
INDEX = {"TORCH_INDEX": "https://index.invalid/cpu"}
PYTHON = """\
#!/bin/sh
# Instead of a venv's Python: the version of its torch is in the file `torch`, and calls of pip are written down.
cd "$ACTOR"
case "$*" in
-c*) cat torch 2>/dev/null || exit 1 ;;
*)
    echo "$*" >> calls
    case "$*" in
    *--dry-run*) echo "Collecting torch"; cat plan || exit 1 ;;
    *--index-url*) cp index torch 2>/dev/null || exit 1 ;;
    *) sed -n 's/.*torch-\\([^ ]*\\).*/\\1/p' plan > torch ;;
    esac ;;
esac
"""


@dataclass(frozen=True)
class Installed:
    """The end of the script, the calls of pip that were no question, and what its constraints say of torch."""

    code: int
    out: str
    err: str
    calls: list[str]
    pinned: str


@dataclass(frozen=True)
class Machine:
    """A folder with a venv whose pip can be told what it knows."""

    folder: Path

    def knows(self, *, plan: str = "", index: str = "", there: str = "", gpu: bool = False) -> None:
        """pip would do as `plan` says; the index has a version, or cannot be reached; a torch may be there already."""
        for name, content in (("plan", plan), ("index", index), ("torch", there)):
            if content:
                (self.folder / name).write_text(content + "\n")
        write_program(self.folder / "bin" / "nvidia-smi", f"#!/bin/sh\nexit {0 if gpu else 9}\n")

    def install(self, *command: str, **variables: str) -> Installed:
        """Run the script, or a command, with these variables."""
        environment = {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "ACTOR": str(self.folder), **variables}
        line = command or ("sh", "scripts/install_torch.sh", str(self.folder / "venv"))
        done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True)
        calls, made = self.folder / "calls", self.folder / "venv" / "constraints.txt"
        lines = calls.read_text().splitlines() if calls.exists() else []
        pinned = re.findall("^torch==.*", made.read_text(), re.MULTILINE)[0] if made.exists() else ""
        return Installed(
            done.returncode, done.stdout, done.stderr, [call for call in lines if "--dry-run" not in call], pinned
        )


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    write_program(tmp_path / "venv" / "bin" / "python", PYTHON)
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("plan", "variables", "gpu", "said", "pinned"),
    [
        (CPU, {}, False, "installing torch (about 200 MB to download)", "torch==2.13.0+cpu"),
        (CPU, {}, True, "installing torch (about 200 MB to download)", "torch==2.13.0+cpu"),
        (CUDA, {}, True, "installing torch with CUDA (2.7 GB to download, 4.9 GB on disk)", "torch==2.13.0"),
        (CUDA, {"TORCH": "cuda"}, False, "installing torch with CUDA (2.7 GB to download", "torch==2.13.0"),
    ],
)
def test_the_size_is_said_before_it_is_installed(
    machine: Machine, plan: str, variables: dict[str, str], gpu: bool, said: str, pinned: str
) -> None:
    machine.knows(plan=plan, gpu=gpu)
    made = machine.install(**variables)
    assert (made.code, made.pinned) == (0, pinned), made.err
    assert said in made.out
    [call] = made.calls
    assert call.startswith("-m pip install ")
    assert call.endswith(" --constraint constraints.txt --quiet torch")


def test_nobody_gets_cuda_unawares(machine: Machine) -> None:
    machine.knows(plan=CUDA)
    stopped = machine.install()
    assert (stopped.code, stopped.calls, stopped.pinned, stopped.out) == (2, [], "", "")
    for part in ("2.7 GB", "4.9 GB", "no NVIDIA GPU", "TORCH_INDEX=URL", "about 200 MB", "TORCH=cuda"):
        assert part in stopped.err


def test_the_index_of_cpu_builds_is_asked_first_and_not_waited_for(machine: Machine) -> None:
    machine.knows(plan=CUDA, index="2.13.0+cpu")
    made = machine.install(**INDEX)
    assert (made.code, made.pinned) == (0, "torch==2.13.0+cpu")
    [call] = made.calls
    assert "--index-url https://index.invalid/cpu --retries 0 --timeout 5" in call
    assert "--no-deps" in call  # all else comes from pip's own index, with the constraints


@pytest.mark.parametrize(("plan", "code", "pinned"), [(CPU, 0, "torch==2.13.0+cpu"), (CUDA, 2, "")])
def test_then_pip_as_it_is(machine: Machine, plan: str, code: int, pinned: str) -> None:
    machine.knows(plan=plan)
    made = machine.install(**INDEX)
    assert (made.code, made.pinned) == (code, pinned)
    assert "TORCH_INDEX=https://index.invalid/cpu: it cannot be reached, or has no such torch" in made.out


@pytest.mark.parametrize("variables", [{}, INDEX, {"TORCH": "cuda"}])
def test_a_torch_that_is_there_stays(machine: Machine, variables: dict[str, str]) -> None:
    """The constraints name it, so that pip does not replace it either."""
    machine.knows(plan=CUDA, index="2.13.0+cpu", there="2.9.1+rocm6")
    made = machine.install(**variables)
    assert (made.code, made.calls, made.pinned) == (0, [], "torch==2.9.1+rocm6")
    assert made.out == "torch 2.9.1+rocm6 is there already\n"


@pytest.mark.parametrize(
    ("variables", "words"), [({"TORCH": "gpu"}, "TORCH=gpu: it can only be cuda"), ({}, "No such file")]
)
def test_what_cannot_be_had_is_an_error(machine: Machine, variables: dict[str, str], words: str) -> None:
    """The second machine has no network at all: pip's own words are shown, once."""
    machine.knows()
    made = machine.install(**variables)
    assert made.code != 0
    assert (made.calls, made.pinned) == ([], "")
    assert made.err.count(words) == 1


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["TORCH=cuda"], 0), (["TORCH_INDEX=x"], 0)])
def test_make_hands_over_its_variables(machine: Machine, arguments: list[str], code: int) -> None:
    machine.knows(plan=CUDA, index="2.13.0+cpu")
    venv = machine.folder / "venv"
    made = machine.install("make", f"VENV={venv}", f"{venv}/constraints.txt", *arguments)
    assert made.code == code, made.err
    assert bool(made.pinned) == (code == 0)


def test_the_rest_is_installed_beside_that_torch() -> None:
    """With the constraints of the venv, and after them."""
    listed = subprocess.run(
        ["make", "--dry-run", "--always-make", "VENV=none", "none/demo", "none/dev"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    torch = [number for number, line in enumerate(listed) if "install_torch.sh none" in line]
    rest = [number for number, line in enumerate(listed) if "--constraint none/constraints.txt --editable" in line]
    assert (len(torch), len(rest)) == (1, 2)
    assert torch < rest


def test_the_versions_of_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [found[1] for line in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", line))]
    assert project["requires-python"] == f">={named[0]}"
    assert f"| Python | {named[0]} and later; tested: {', '.join(named)} |" in (ROOT / "docs/platforms.md").read_text()


def test_the_source_distribution_can_be_made_and_tested() -> None:
    """`make` and the tests need these."""
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]
    packed = {*hatch["build"]["targets"]["sdist"]["include"]}
    assert {"Makefile", "scripts", "constraints.txt", "src", "tests", "docs"} <= packed
    assert [name for name in packed if not (ROOT / name).exists()] == []
