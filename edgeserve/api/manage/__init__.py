"""Models and settings, managed while the server runs."""
