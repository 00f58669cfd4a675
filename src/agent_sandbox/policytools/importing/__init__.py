"""Convert policies of other formats to ours, with a note for each change of meaning."""
