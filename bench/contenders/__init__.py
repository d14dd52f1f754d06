"""Who is measured: each gives the same record for the same case, however its processes are started."""
