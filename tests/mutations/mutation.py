"""What a deliberate bug is: text of the sources that is replaced."""

import dataclasses
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
class Mutation:
    name: str
    breaks: str  # what the protocol promises (docs/architecture.md)
    edits: tuple[Edit, ...]


def mutation(name: str, breaks: str, *edits: tuple[str, str, str]) -> Mutation:
    return Mutation(name, breaks, tuple(Edit(*edit) for edit in edits))
