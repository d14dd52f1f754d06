"""The measuring rig: nodes made of network namespaces, links shaped to a rate, and the processes in them."""
