"""Claims: run the arms over seeds, judge the paired differences, store and report."""
