"""The served explorer: a Panel application on this machine only."""
