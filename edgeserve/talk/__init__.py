"""Spoken conversations: forms of sound, ends of turns, and speech clause by clause."""
