"""What passes between the user's terminal and a program in the sandbox: copies to the clipboard, and pasted images."""
