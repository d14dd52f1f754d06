module shoal/tests/cluster/pause

go 1.24.0
