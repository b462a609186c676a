"""One reader per file format; each returns named values, or a whole data set where the format says what is what."""
