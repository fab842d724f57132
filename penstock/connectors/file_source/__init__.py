"""Files that Penstock reads itself, with the results of Spark's file source and in its bookkeeping."""
