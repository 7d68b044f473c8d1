"""Live transcription: sessions, the sound that they keep, and confirmed words."""
