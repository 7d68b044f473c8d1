"""HTTP: native and OpenAI routes on one straight line (``line.py``), live and memory routes, limits, and errors."""
