"""Runs the rank program of another build's tree, whose structs of the C ABI fit that build's library, with the inputs
that this tree's rank program makes: so jobs of both builds must have the same bits.

`rank_of_build.py RANK_PROGRAM OPTION...`: the options are those of the rank program.
"""

import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "process"))

import rank_program  # noqa: E402

path = sys.argv.pop(1)
spec = importlib.util.spec_from_file_location("rank_program_of_build", path)
of_build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(of_build)
of_build.make_input = rank_program.make_input
sys.exit(of_build.main())
