"""Audio: decoded from and encoded to files of every common form."""
