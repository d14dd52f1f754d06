"""Stands where a package that was not built for one torch has no compiled module: gives way to the one that fits."""

import sys

from shoal import plugin

sys.modules[__name__] = plugin.load()
