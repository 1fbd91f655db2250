"""What should be, given what is: pure functions, one module per question."""
