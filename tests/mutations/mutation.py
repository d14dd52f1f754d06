"""What a deliberate bug is: text of the sources that is replaced, and what has to find it."""

import dataclasses
import hashlib
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Edit:
    file: str
    before: str
    after: str

    def apply(self, text: str) -> str:
        count = text.count(self.before)
        if count != 1:
            raise ValueError(f"{self.file}: the text to replace is there {count} times, not once:\n{self.before}")
        return text.replace(self.before, self.after)


@dataclasses.dataclass(frozen=True)
class CxxTest:
    program: str  # as CMake knows it
    name: str  # as GoogleTest knows it

    def __str__(self) -> str:
        return f"{self.program} --gtest_filter={self.name}"


@dataclasses.dataclass(frozen=True)
class PythonTest:
    file: str
    name: str  # with its parameters

    def __str__(self) -> str:
        return f"pytest '{self.file}::{self.name}'"


Test = CxxTest | PythonTest


@dataclasses.dataclass(frozen=True)
class Mutation:
    name: str
    breaks: str  # what is promised (of the protocol: docs/architecture.md)
    edits: tuple[Edit, ...]
    test: Test | None  # that has to find it; None: the seeds of the simulator have to

    def key(self) -> str:
        """Another one when it or its test is changed."""
        return f"{self.name} {hashlib.sha256(repr(self).encode()).hexdigest()[:16]}"


def mutation(name: str, breaks: str, *edits: tuple[str, str, str], test: Test | None = None) -> Mutation:
    return Mutation(name, breaks, tuple(Edit(*edit) for edit in edits), test)
