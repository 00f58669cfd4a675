"""What was written while a protected path was not protected, and settings that are harmless to accept."""
