"""Thousands of broken requests and files: each gets an answer that is meant, and nobody else notices.

python -m benchmarks.fuzz --seed N [--cases 10000] [--kind KIND]
"""
