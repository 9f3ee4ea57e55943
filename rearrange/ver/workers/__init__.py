"""The processes that step environments, and the memory they share with the policy."""
