"""The command line: thin over the rooms."""
