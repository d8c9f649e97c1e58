"""Pages on SSD: the folder, its index, who owns what in it, reading and writing."""
