"""Lets the tests of this folder find the checks, and those find the cluster of tests/process."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "process")]
