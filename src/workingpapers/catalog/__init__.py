"""Paper records: reading, importing, indexing, searching, exporting."""
