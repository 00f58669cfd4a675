"""`init`: gather facts about the project and the machine, render the stack, compare it with the files, write."""
