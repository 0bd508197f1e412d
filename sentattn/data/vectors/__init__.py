"""Pretrained vectors: files of them, read line by line, to the rows of a vocabulary."""
