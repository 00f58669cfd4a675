"""What users bring along -> a policy in our language, and each place where its meaning changes."""
