"""What people do: discover, resume, evaluate, predict, export."""
