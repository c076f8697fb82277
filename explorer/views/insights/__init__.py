"""What the views know and a person should hear of: finders over a trace, each in its own words."""
