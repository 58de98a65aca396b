"""The networks: attention, encoders, decoders, and how a configuration becomes one of them."""
