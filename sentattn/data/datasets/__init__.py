"""Where labelled texts come from: one file a source."""
