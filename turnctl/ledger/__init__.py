"""The durable record: tasks, their cancellation, and what got out, whatever becomes of the process."""
