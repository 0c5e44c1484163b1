"""Features of a head besides the encoding: title, words, and late interaction."""
