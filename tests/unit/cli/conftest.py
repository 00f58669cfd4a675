from run_cli import ask, empty_project

__all__ = ["ask", "empty_project"]
