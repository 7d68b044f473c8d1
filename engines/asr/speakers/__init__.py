"""Speakers of a recording, separated by their voices."""
