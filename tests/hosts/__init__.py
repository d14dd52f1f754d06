"""Clusters of the real programs for tests, measurements and the demo: nodes, their links, and the programs on them."""
