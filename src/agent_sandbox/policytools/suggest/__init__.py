"""From a log of denials to the narrowest rules that would have allowed them."""
