"""TLS contexts for both sides, and the certificate authority that signs for them."""
