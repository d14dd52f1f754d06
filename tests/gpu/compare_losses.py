"""Whether two summaries of examples/train_gpt.py have the same losses, within a thousandth.

python tests/gpu/compare_losses.py SHOAL.json NCCL.json
"""

import json
import pathlib
import sys

TOLERANCE = 1e-3


def main() -> int:
    first, second = (json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["losses"] for path in sys.argv[1:3])
    if len(first) != len(second):
        print(f"{len(first)} steps in {sys.argv[1]}, {len(second)} in {sys.argv[2]}")
        return 1
    farthest = max(abs(left - right) for left, right in zip(first, second, strict=True))
    print(f"{len(first)} steps; the losses differ by {farthest:.2e} at most ({TOLERANCE:.0e} are allowed)")
    return 0 if farthest <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
