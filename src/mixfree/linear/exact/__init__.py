"""Least squares in one pass over rows in any order.

Rows wait until a block is full (``blocks``). It enters the sums of the stream and of its batches
(``sums``, ``streamsums``), and some of its rows windows (``windows``). ``solve`` has the weights,
``inference`` their intervals by ``batch_means``; ``squared`` and ``forgetting`` are the fits.
"""
