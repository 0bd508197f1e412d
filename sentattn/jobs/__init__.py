"""Trainings side by side: processes, the slots that they run in, the scheduler, and what it prints."""
