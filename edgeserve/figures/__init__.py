"""Figures of the server at work: counts and times, traces, and the line of the log about a request."""
