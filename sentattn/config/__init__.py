"""How settings come to be: files of choices, what was typed, and the checks against the constructors."""
