"""Benchmarks: run by `make bench`, no part of the package."""
