"""OpenAI's Responses: items in, items and numbered events out, and a store of past responses."""
