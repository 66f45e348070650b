"""Conversations: messages, windows, memos."""
