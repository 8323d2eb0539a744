"""Pages of HTML: one file each, offline."""
