"""Results that commands have saved: drawn again, and several of one study side by side."""
