"""Pictures of a request: fetched, checked, bounded."""
