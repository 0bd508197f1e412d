"""Files from elsewhere: fetched once, checked, kept."""
