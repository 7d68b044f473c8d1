"""Named keys of the server: their scopes and limits, their file, and the check of what clients send."""
