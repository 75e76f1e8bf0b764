"""What makes httpcore stoppable, and the copies of it that go by another name: its streams, its waits, its pool."""
