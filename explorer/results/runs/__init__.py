"""Records of running: events, kept programs, lookups, sessions, searches."""
