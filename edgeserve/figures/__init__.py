"""Figures of the server at work: counts and times, traces, and what the log tells of a request."""
