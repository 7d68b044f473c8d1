"""Gate, queue, loop, lease, pool, monitor: who works, who waits, who stays in memory."""
