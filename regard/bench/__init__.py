"""Side-by-side measurements: ours, the best plain PyTorch, and the peer, in one run, as ratios."""
