"""The attention explorer: a local web page that shows what several models make of a text."""
