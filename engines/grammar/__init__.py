"""Grammars: the texts that an answer may be (GBNF rules, patterns, numbers, JSON schema)."""
