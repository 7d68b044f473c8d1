"""Changes of the settings and of the models while the server runs."""
