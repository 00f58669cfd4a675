"""Steps that several commands share: the trust gate, executing a plan, starting a stack, editing a policy."""
