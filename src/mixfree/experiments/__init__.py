"""The paper's experiments and this project's own, each from one command."""
