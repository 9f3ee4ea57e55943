"""The command line: one thin module per verb; settings in, one call, results out."""
