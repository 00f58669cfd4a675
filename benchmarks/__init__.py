"""`make bench`: measured beside peers, interleaved in one run, told as ratios. See docs/performance.md."""
