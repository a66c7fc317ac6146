"""The paper's bounds as plain functions, and their measurement (``mixfree reproduce theory``)."""
