"""Sound of requests and answers: recordings, voices, languages, transcripts."""
