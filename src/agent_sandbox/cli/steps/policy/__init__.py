"""Steps of commands about the policy: find the file, edit it, resolve its services, reload it."""
