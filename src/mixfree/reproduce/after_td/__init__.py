"""TD learning and control after the paper."""
