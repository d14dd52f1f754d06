"""That it is here lets all tests import the package `hosts`."""
