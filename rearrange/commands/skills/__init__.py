"""The verb that trains skills from nothing: their stages in order, their files, a report."""
