"""Child processes of the server: their start, their end, and what they share with it."""
