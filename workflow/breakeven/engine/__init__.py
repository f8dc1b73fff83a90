"""What a server speaks: its flags, its readiness, its streams, its counters, its log. An engine knows no runtime."""
