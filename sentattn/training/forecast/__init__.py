"""What to expect of a training before it begins: shapes, memory and time."""
