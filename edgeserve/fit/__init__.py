"""Fit for this machine: which models of the catalogue suit it, their memory, their speed, and what runs together."""
