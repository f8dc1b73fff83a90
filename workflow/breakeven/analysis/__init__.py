"""From samples to verdicts: pure functions over tables; opens no socket, starts nothing."""
