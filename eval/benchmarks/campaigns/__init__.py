"""Campaigns: many trainings that together answer one question."""
