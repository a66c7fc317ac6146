"""What is known about a fit, as text, JSON and a page."""
