"""The app's server: pages, what is answered, what is uploaded."""
