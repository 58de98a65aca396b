"""From texts or files to answers, with a trained or exported model."""
