"""Clients of all kinds while workers die, hang and starve: every answer is right, or has a cause.

python -m benchmarks.chaos [--seed 1] [--minutes 10] [--fakes] [--page NAME]
"""
