"""examples/train_gpt.py, which does no more steps than a file allows.

    torchrun ... bench/survival/gated_training.py FILE ARGUMENTS...

FILE holds the number of steps that may be done by now. Each rank waits at that step until FILE allows more.
"""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))

import train_gpt

POLL_S = 0.005


def gate_steps(batches: type, gate: pathlib.Path) -> type:
    """The class of batches, whose `at` waits until the file allows its step."""

    class GatedBatches(batches):
        allowed_steps = 0

        def at(self, step: int):
            while step >= self.allowed_steps:
                self.allowed_steps = int(gate.read_text())
                if step >= self.allowed_steps:
                    time.sleep(POLL_S)
            return super().at(step)

    return GatedBatches


if __name__ == "__main__":
    train_gpt.Batches = gate_steps(train_gpt.Batches, pathlib.Path(sys.argv.pop(1)))
    sys.exit(train_gpt.main())
