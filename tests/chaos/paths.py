"""Where the programs and the other rigs are. Importing it lets `cluster`, `rank_program` and `rig` be imported."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build" / "bin"))
LIBRARY = PROGRAMS.parent / "lib" / "libshoal.so"
RESULTS = pathlib.Path(__file__).with_name("results")
SCHEDULES = pathlib.Path(__file__).with_name("schedules")

for folder in (ROOT / "bench", ROOT / "tests" / "process"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
