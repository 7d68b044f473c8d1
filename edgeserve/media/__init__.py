"""Short-lived child processes that decode what clients send, and encode what they get."""
