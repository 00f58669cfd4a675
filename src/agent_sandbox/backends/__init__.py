"""How a stack is kept running: one module per backend, one table. A backend plans; `runtime` acts."""
