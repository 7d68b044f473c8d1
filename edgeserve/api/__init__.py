"""HTTP: two dialects over one straight line (``line.py``), one renderer of failures, the limits on everything."""
