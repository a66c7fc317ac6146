"""What came after the paper in TD learning and control."""
