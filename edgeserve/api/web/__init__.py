"""The web page of the server, and its files."""
