"""The attention explorer: a local web page that shows the predictions of several models for a text."""
