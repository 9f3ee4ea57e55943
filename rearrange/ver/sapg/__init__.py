"""SAPG: blocks of environments with policies of their own, one of which learns from all of them."""
