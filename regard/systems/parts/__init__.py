"""Bricks that three systems or more share."""
