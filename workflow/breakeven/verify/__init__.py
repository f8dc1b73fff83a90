"""Is this arm the arm it claims to be: expectations on facts, and what differs between arms."""
