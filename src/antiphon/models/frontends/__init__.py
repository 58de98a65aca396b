"""Front ends turn pictures and sounds into the vectors that an encoder reads."""
