"""Labels, grades and relations of texts, pairs and images."""
