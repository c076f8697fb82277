"""What one page shows, as a value, and how messages change it: nothing is done in here."""
