"""Models for other engines, and from other toolkits."""
