"""The flow file: read, checked and made into a flow."""
