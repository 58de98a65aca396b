"""The version, for all who say it without importing the package."""

__all__ = ["__version__"]

__version__ = "0.1.0"
