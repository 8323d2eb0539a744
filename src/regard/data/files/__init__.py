"""Files of records: packing, lines, and which format a file has."""
