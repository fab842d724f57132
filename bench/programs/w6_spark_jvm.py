"""Workload W6 on Spark's own operators: four queries of Nexmark, without Python."""

import spark_run
from pyspark.sql import functions as F

LATENESS = "2 seconds"


def read_timed(spark, args, name, schema):
    rows = spark_run.read_stream(spark, args, name, f"{schema}, ts bigint")
    return rows.withColumn("at", F.expr("timestamp_millis(ts)")).drop("ts").withWatermark("at", LATENESS)


def read_bids(spark, args):
    return read_timed(spark, args, "bids", "auction bigint, bidder bigint, price bigint")


def hot_items(spark, args):
    windows = F.window("at", "10 seconds", "2 seconds")
    counts = read_bids(spark, args).groupBy(windows, "auction").agg(F.count("*").alias("bids"))
    best = F.max(F.struct("bids", (-F.col("auction")).alias("auction")))
    return counts.groupBy("window").agg(best.alias("best"))


def highest_bid(spark, args):
    best = F.max(F.struct("price", (-F.col("auction")).alias("auction")))
    return read_bids(spark, args).groupBy(F.window("at", "10 seconds")).agg(best.alias("best"))


def new_users(spark, args):
    persons = read_timed(spark, args, "persons", "id bigint, name string")
    persons = persons.select("id", "name", F.window("at", "10 seconds").alias("person_window"))
    auctions = read_timed(spark, args, "auctions", "id bigint, seller bigint")
    sellers = auctions.select("seller", F.window("at", "10 seconds").alias("window"))
    sellers = sellers.dropDuplicates(["seller", "window"])
    return persons.join(sellers, F.expr("id = seller and person_window = window"))


def sessions(spark, args):
    return read_bids(spark, args).groupBy("bidder", F.session_window("at", "9999 milliseconds")).count()


QUERIES = {"q5": hot_items, "q7": highest_bid, "q8": new_users, "q11": sessions}


def build(spark, args):
    return QUERIES[args.query](spark, args)


if __name__ == "__main__":
    spark_run.run(build)
