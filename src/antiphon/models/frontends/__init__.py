"""Front ends turn texts, images, videos, audio and feature vectors into the vectors that an encoder reads."""
