"""What the shell is answered when a person presses the key for completion: read-only, capped, silent on any error."""
