"""Chaos: the real programs on a real network, with faults drawn from a seed. Start reading at README.md."""
