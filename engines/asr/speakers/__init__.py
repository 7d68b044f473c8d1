"""Speakers of a recording, told apart by their voices."""
