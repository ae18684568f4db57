"""The rules by which jobs are run: pure functions of counts, times and a JobPolicy.

No clock, no I/O, no workflow API: the workflows, the simulation (bench/escalation.py) and the
property tests call the same code. Times are seconds since the job was accepted unless a name says
otherwise.
"""
