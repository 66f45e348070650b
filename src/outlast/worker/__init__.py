"""A worker: goes on with what can go on by itself, so that nothing waits for cron."""
