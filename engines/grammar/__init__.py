"""Grammars: which text an answer may be (GBNF rules, patterns, numbers, JSON schema)."""
