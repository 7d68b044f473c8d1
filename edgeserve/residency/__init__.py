"""Gate, host, loop, lease, pool, monitor: the work that runs, the work that waits, and the engines in memory."""
