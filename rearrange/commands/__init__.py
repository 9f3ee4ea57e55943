"""The console: one thin module a verb; settings in, one domain call, printing out."""
