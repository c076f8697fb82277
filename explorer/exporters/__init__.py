"""Programs written into files that other programs run, one folder per format."""
