"""The ladder and other methods against the best constant step in hindsight."""
