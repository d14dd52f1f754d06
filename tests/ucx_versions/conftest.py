"""Lets the tests of this folder find the cluster of tests/process."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "process"))
