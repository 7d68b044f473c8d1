"""Sound as users send and want it: decoded from and encoded to files of every common form."""
