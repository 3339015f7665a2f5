"""The machinery: contracts, the three backends and the registry. It knows no operator by name."""
